//! What a source table looks like: its columns, their types, and the key that identifies a row.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::{ColumnUse, Members, Shadow, TableMode};

/// A table of the source, by schema (namespace, database) and name, both exactly as the source stores them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableName {
    /// The schema (Postgres) or database (MySQL).
    pub schema: String,
    /// The table's own name.
    pub name: String,
}

impl TableName {
    /// A name from its two parts.
    pub fn new(schema: impl Into<String>, name: impl Into<String>) -> Self {
        Self { schema: schema.into(), name: name.into() }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// A text that does not name a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' does not name a table: write schema.table, and double quotes around a part that holds a dot")]
pub struct ParseTableNameError(String);

impl FromStr for TableName {
    type Err = ParseTableNameError;

    /// `schema.table`. A part may stand in double quotes (`"odd.schema"."my table"`), a quote inside doubled. Case is kept as it is.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseTableNameError(text.to_owned());
        let (schema, rest) = part(text).ok_or_else(error)?;
        let (name, rest) = rest.strip_prefix('.').and_then(part).ok_or_else(error)?;
        if rest.is_empty() { Ok(Self { schema, name }) } else { Err(error()) }
    }
}

/// The first part of a dotted name and what follows it.
fn part(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find('.').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        return (!name.is_empty() && !name.contains('"')).then(|| (name.to_owned(), rest));
    };
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let end = rest.find('"')?;
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return (!name.is_empty()).then_some((name, rest)),
        }
    }
}

/// The type of a column in the lake. One Arrow and one Iceberg type belong to each.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    /// True or false.
    Boolean,
    /// 32-bit signed.
    Int,
    /// 64-bit signed.
    Long,
    /// IEEE 754 binary32.
    Float,
    /// IEEE 754 binary64.
    Double,
    /// Unscaled 128-bit integers. `precision` is 1 to 38, `scale` 0 to `precision`.
    Decimal {
        /// Decimal digits in all.
        precision: u8,
        /// Decimal digits after the point.
        scale: u8,
    },
    /// UTF-8 text.
    String,
    /// Bytes.
    Binary,
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since midnight, below 24 hours.
    Time,
    /// Microseconds since 1970-01-01 00:00:00, of no time zone.
    Timestamp,
    /// Microseconds since 1970-01-01 00:00:00 UTC.
    TimestampTz,
    /// 16 bytes in network order.
    Uuid,
    /// Elements of one type in their order, each of which may be NULL. The element is neither a list nor a map.
    List(Box<ColumnType>),
    /// Texts by text. A value may be NULL, a key may not.
    Map,
}

impl ColumnType {
    /// The Arrow type of this column's arrays.
    pub fn arrow_type(&self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Int => DataType::Int32,
            Self::Long => DataType::Int64,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            // The precision is at most 38 and the scale at most the precision, so neither cast can wrap.
            Self::Decimal { precision, scale } => DataType::Decimal128(*precision, scale.cast_signed()),
            Self::String => DataType::Utf8,
            Self::Binary => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            Self::Uuid => DataType::FixedSizeBinary(16),
            Self::List(element) => DataType::List(Arc::new(Field::new("element", element.arrow_type(), true))),
            Self::Map => {
                let key = Field::new("key", DataType::Utf8, false);
                let entry = Fields::from(vec![key, Field::new("value", DataType::Utf8, true)]);
                DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(entry), false)), false)
            }
        }
    }

    /// A list of this.
    #[must_use]
    pub fn list(self) -> Self {
        Self::List(Box::new(self))
    }

    /// Why values of this type cannot be part of a key, None where they can: of floating-point numbers equality is not identity, and by lists and maps
    /// Iceberg deletes no rows.
    pub fn no_key_because(&self) -> Option<&'static str> {
        match self {
            Self::Float | Self::Double => Some("floating-point numbers cannot tell rows apart"),
            Self::List(_) => Some("lists cannot tell rows apart in Iceberg"),
            Self::Map => Some("maps cannot tell rows apart in Iceberg"),
            _ => None,
        }
    }
}

/// The column's type as the source knows it, kept so that a change of it is noticed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NativeType {
    /// The source's own number of the type (Postgres: `pg_type.oid`; MySQL: the type code in a table map).
    pub id: u32,
    /// The source's modifier, such as a precision (Postgres: `atttypmod`, -1 for none; MySQL: the metadata in a
    /// table map).
    pub modifier: i32,
    /// The type as its SQL would write it: `numeric(10,2)`, `enum('a','b')`.
    pub name: String,
    /// The character set of the column's own text, where columns have one (MySQL: `latin1`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub character_set: Option<String>,
    /// What else the source says of the column that decides what an ALTER does to rows that are there, in its own words (MySQL:
    /// `not null`, `auto_increment`, `generated`, `unique`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<String>,
    /// Of an array, what its elements are (Postgres).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<NativeElement>,
}

/// The type of the elements of an array, as the source knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NativeElement {
    /// The source's own number of the type, under any domain (Postgres: `pg_type.oid`).
    pub id: u32,
    /// What stands between elements in the array's text (Postgres: `pg_type.typdelim`).
    pub delimiter: char,
}

impl NativeType {
    /// A type without a character set of its own.
    pub fn new(id: u32, modifier: i32, name: impl Into<String>) -> Self {
        Self { id, modifier, name: name.into(), character_set: None, attributes: Vec::new(), element: None }
    }
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Column {
    /// The source's own number of the column in its table, which it keeps when it is renamed (Postgres: `attnum`; MySQL:
    /// counted in order of appearance). 0 where it is not known; the name identifies the column then.
    #[serde(default)]
    pub id: u32,
    /// Exactly as the source stores it.
    pub name: String,
    /// In the lake.
    pub ty: ColumnType,
    /// Whether NULL may appear. Key columns are never nullable.
    pub nullable: bool,
    /// In the source.
    pub native: NativeType,
    /// What the lake gets of it.
    #[serde(default, skip_serializing_if = "ColumnUse::is_values")]
    pub usage: ColumnUse,
}

/// A part of a partitioned source table that rows lie in, or other parts, as the source's catalog has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "(u32, u32, u32)", into = "(u32, u32, u32)")]
pub struct Partition {
    /// The source's own number of it (Postgres: `pg_class.oid`).
    pub native_id: u32,
    /// The transaction that made it a part of the table (Postgres: `pg_inherits.xmin`).
    pub attached_by: u32,
    /// The file that its rows lie in, which is another one once they were taken away as a whole (Postgres:
    /// `pg_class.relfilenode`); 0 where it has none of its own.
    pub file: u32,
}

impl From<(u32, u32, u32)> for Partition {
    fn from((native_id, attached_by, file): (u32, u32, u32)) -> Self {
        Self { native_id, attached_by, file }
    }
}

impl From<Partition> for (u32, u32, u32) {
    fn from(partition: Partition) -> Self {
        (partition.native_id, partition.attached_by, partition.file)
    }
}

/// The partitions that a table's rows came from, where partitions come and go without the log saying what rows they had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Partitions {
    /// By their numbers.
    pub known: Vec<Partition>,
    /// The transaction that emptied the whole table last, if that was in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emptied_by: Option<u32>,
}

/// The shape of a source table from some position on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TableSchema {
    /// The table.
    pub table: TableName,
    /// The source's own number of the table (Postgres: `pg_class.oid`); another number under the same name is another table.
    pub native_id: u32,
    /// What text columns get that come without a character set of their own, where the source has such a thing and it is known
    /// (MySQL: the default of the table).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub character_set: Option<String>,
    /// Numbers of columns that the source has beside these and its log does not carry, though rows have values in them (Postgres:
    /// generated columns).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<u32>,
    /// The copy that is built to take the table's place, where one is known (MySQL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Box<Shadow>>,
    /// How many copies took the table's place since it was described.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub swaps: u32,
    /// Whether the lake keeps rows that the source has not: they went with partitions, and what is inserted may have their keys.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_gone: bool,
    /// Whether columns that are dropped leave the lake's schema too, and do not stay there as optional ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drops_columns: bool,
    /// The tables of the source whose rows these are, where several are merged into this one; each in one place only. Empty: it is a
    /// table of the source itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Members>,
    /// What the table in the lake holds.
    #[serde(default, skip_serializing_if = "TableMode::is_upsert")]
    pub mode: TableMode,
    /// The condition that the lake's rows are chosen by, as it was written; None: it has all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The partitions so far; None where it has none, or what becomes of them is in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Partitions>,
    /// Labels of enums that its columns may hold, by the source's numbers; those that are known (Postgres).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<u32, String>,
    /// In the source's order, at least one.
    pub columns: Vec<Column>,
    /// Indexes into `columns` of the replica identity, in its own order; empty where the table has none.
    pub key: Vec<usize>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl TableSchema {
    /// A table whose rows the lake holds as they are, all columns of all of them.
    pub fn new(table: TableName, native_id: u32, columns: Vec<Column>, key: Vec<usize>) -> Self {
        Self {
            table,
            native_id,
            character_set: None,
            left_out: Vec::new(),
            members: Vec::new(),
            shadow: None,
            swaps: 0,
            keeps_gone: false,
            drops_columns: false,
            mode: TableMode::default(),
            filter: None,
            partitions: None,
            labels: BTreeMap::new(),
            columns,
            key,
        }
    }

    /// Whether rows of the other schema are rows of this one: at most its partitions are others, or what is known of a copy or of labels.
    pub fn has_rows_of(&self, other: &Self) -> bool {
        let (shadow, partitions, labels) = (self.shadow.clone(), self.partitions.clone(), self.labels.clone());
        self == other || *self == Self { shadow, partitions, labels, ..other.clone() }
    }

    /// The key's columns, in the key's order.
    pub fn key_columns(&self) -> impl ExactSizeIterator<Item = &Column> {
        self.key.iter().map(|&index| &self.columns[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_by_part() {
        for (text, schema, name) in [
            ("public.orders", "public", "orders"),
            ("public.Orders Ü", "public", "Orders Ü"),
            (r#""a.b"."c ""d""""#, "a.b", r#"c "d""#),
            (r#"public."x""#, "public", "x"),
        ] {
            assert_eq!(text.parse(), Ok(TableName::new(schema, name)), "{text}");
        }
        for text in ["", "orders", ".orders", "public.", "a.b.c", r#""a"#, r#""".b"#, r#"a"b.c"#, r#"a."b"c"#] {
            assert!(text.parse::<TableName>().is_err(), "{text} was accepted");
        }
    }
}

//! How a table's rows are to lie in the lake: by what they are put into partitions, in which order they stand in their files, and
//! of which columns files have Bloom filters.
//!
//! How these are written is in `layout_text`.

use crate::layout_text::quoted;
use crate::{Column, ColumnType, Finding, TableSchema};

/// What a partition makes of a column's values (Iceberg specification, "Partition Transforms").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transform {
    /// The value itself.
    Identity,
    /// One of so many buckets, by the value's hash.
    Bucket(u32),
    /// Text and bytes cut to this length, numbers rounded down to a multiple.
    Truncate(u32),
    /// The year.
    Year,
    /// The month of its year.
    Month,
    /// The day.
    Day,
    /// The hour of its day.
    Hour,
}

/// A part of what partitions are made by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartitionBy {
    /// What is made of the column's values.
    pub transform: Transform,
    /// The column's name at the source.
    pub column: String,
}

/// A part of what rows are sorted by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SortBy {
    /// The column's name at the source.
    pub column: String,
    /// From the greatest value to the least.
    pub descending: bool,
    /// Rows without a value come before those that have one.
    pub nulls_first: bool,
}

/// Which columns have Bloom filters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum BloomFilters {
    /// None has.
    #[default]
    None,
    /// Those of the key.
    Key,
    /// These.
    Columns(Vec<String>),
}

/// How the rows of a table lie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Rows that are alike in all of it lie in the same files.
    pub partition: Vec<PartitionBy>,
    /// The order of the rows of a file.
    pub sort: Vec<SortBy>,
    /// For those who look for single values.
    pub bloom_filters: BloomFilters,
}

impl Transform {
    /// Names of the transforms.
    pub const WORDS: [&str; 7] = ["identity", "bucket", "truncate", "year", "month", "day", "hour"];

    pub(crate) fn word(self) -> &'static str {
        let [identity, bucket, truncate, year, month, day, hour] = Self::WORDS;
        match self {
            Self::Identity => identity,
            Self::Bucket(_) => bucket,
            Self::Truncate(_) => truncate,
            Self::Year => year,
            Self::Month => month,
            Self::Day => day,
            Self::Hour => hour,
        }
    }

    fn is_of_time(self) -> bool {
        matches!(self, Self::Year | Self::Month | Self::Day | Self::Hour)
    }

    /// Whether values of this type can be transformed so. The error says which could.
    fn takes(self, ty: &ColumnType) -> Result<(), String> {
        use ColumnType as T;
        let of = |types: &str| Err(format!("it takes {types}"));
        match (self, ty) {
            // What writes manifests (the iceberg crate, 0.10) has no uuids in them.
            (Self::Identity, T::Uuid | T::Float | T::Double | T::List(_) | T::Map) => {
                of("every type but uuids, floating-point numbers, lists and maps")
            }
            (Self::Bucket(_), T::Boolean | T::Float | T::Double | T::List(_) | T::Map) => {
                of("every type but booleans, floating-point numbers, lists and maps")
            }
            (Self::Truncate(width), T::Decimal { precision, .. }) if !holds_truncated(*precision, width) => {
                Err(format!("decimals of {precision} digits cannot be rounded down by {width}; choose a smaller width"))
            }
            (Self::Truncate(_), T::Int | T::Long | T::Decimal { .. } | T::String | T::Binary)
            | (Self::Year | Self::Month | Self::Day, T::Date | T::Timestamp | T::TimestampTz)
            | (Self::Hour, T::Timestamp | T::TimestampTz)
            | (Self::Identity | Self::Bucket(_), _) => Ok(()),
            (Self::Truncate(_), _) => of("int, long, decimal, string and binary"),
            (Self::Hour, _) => of("timestamp and timestamptz"),
            (Self::Year | Self::Month | Self::Day, _) => of("date, timestamp and timestamptz"),
        }
    }
}

/// Whether the bytes that Iceberg has for decimals of this precision hold the least of them, rounded down.
fn holds_truncated(precision: u8, width: u32) -> bool {
    let Some(greatest) = 10_i128.checked_pow(precision.into()).map(|power| power - 1) else { return false };
    let least = (1..=16).map(|bytes| i128::MIN >> (128 - 8 * bytes)).find(|least| *least < -greatest);
    least.is_some_and(|least| (-greatest).checked_sub(i128::from(width) - 1).is_some_and(|rounded| rounded >= least))
}

impl Layout {
    /// What is wrong with it for a table of this schema.
    pub fn findings(&self, schema: &TableSchema) -> Vec<Finding> {
        let lake = schema.in_lake();
        let find = |name: &str| lake.columns.iter().find(|column| column.name == name);
        let mut found = Findings { schema, lake: &lake.columns, found: Vec::new() };
        for (at, by) in self.partition.iter().enumerate() {
            let Some(column) = find(&by.column) else {
                found.missing("partition", &by.column);
                continue;
            };
            if let Err(why) = by.transform.takes(&column.ty) {
                found.add(
                    format!(
                        "{by} cannot partition table {}, where {} is {}",
                        schema.table,
                        quoted(&by.column),
                        column.ty
                    ),
                    why,
                );
                continue;
            }
            if let Some((what, remedy)) = by.troubles_duckdb(&column.ty) {
                found.found.push(Finding::warning(
                    format!("table {} is partitioned by {by}, {what}", schema.table),
                    format!("leave it as it is where Spark, Trino and their like read the table; else {remedy}"),
                ));
            }
            let alike = |other: &&PartitionBy| {
                let same = other.transform == by.transform || other.transform.is_of_time() && by.transform.is_of_time();
                other.column == by.column && same
            };
            if let Some(other) = self.partition[..at].iter().find(alike) {
                found.add(
                    format!(
                        "table {} is to be partitioned by {other} and by {by}, of which one follows from the other",
                        schema.table
                    ),
                    "leave one of them out".to_owned(),
                );
            }
        }
        for (at, by) in self.sort.iter().enumerate() {
            match find(&by.column) {
                None => found.missing("sort", &by.column),
                Some(column) if has_parts(column) => found.add(
                    format!(
                        "table {} cannot be sorted by {}, which is {}",
                        schema.table,
                        quoted(&by.column),
                        column.ty
                    ),
                    "leave it out of 'sort'".to_owned(),
                ),
                Some(_) if self.sort[..at].iter().any(|other| other.column == by.column) => found.add(
                    format!("table {} is to be sorted by {} twice", schema.table, quoted(&by.column)),
                    "leave one of them out".to_owned(),
                ),
                Some(_) => {}
            }
        }
        if let BloomFilters::Columns(names) = &self.bloom_filters {
            for name in names {
                match find(name) {
                    None => found.missing("files.bloom_filters", name),
                    Some(column) if !has_filter(column) => found.add(
                        format!(
                            "column {} of table {} is {}, which has no Bloom filter",
                            quoted(name),
                            schema.table,
                            column.ty
                        ),
                        "leave it out of 'files.bloom_filters'".to_owned(),
                    ),
                    Some(_) => {}
                }
            }
        }
        found.found
    }

    /// Names of the columns that have Bloom filters in a table of this schema.
    pub fn filtered<'a>(&'a self, schema: &'a TableSchema) -> Vec<&'a str> {
        match &self.bloom_filters {
            BloomFilters::None => Vec::new(),
            BloomFilters::Key => {
                schema.key_columns().filter(|column| has_filter(column)).map(|column| column.name.as_str()).collect()
            }
            BloomFilters::Columns(names) => names.iter().map(String::as_str).collect(),
        }
    }
}

struct Findings<'a> {
    schema: &'a TableSchema,
    lake: &'a [Column],
    found: Vec<Finding>,
}

impl Findings<'_> {
    fn add(&mut self, what: String, remedy: String) {
        self.found.push(Finding::error(what, remedy));
    }

    fn missing(&mut self, option: &str, column: &str) {
        let known: Vec<&str> = self.lake.iter().map(|column| column.name.as_str()).collect();
        self.add(
            format!(
                "'{option}' of table {} names column {}, which the table does not have",
                self.schema.table,
                quoted(column)
            ),
            format!("correct it; the table has {}", known.join(", ")),
        );
    }
}

fn has_parts(column: &Column) -> bool {
    matches!(column.ty, ColumnType::List(_) | ColumnType::Map)
}

fn has_filter(column: &Column) -> bool {
    !has_parts(column) && column.ty != ColumnType::Boolean
}

impl PartitionBy {
    /// What DuckDB (1.5.5) makes of such partitions that it should not, whatever the rows are, and what to do.
    fn troubles_duckdb(&self, ty: &ColumnType) -> Option<(&'static str, String)> {
        match (self.transform, ty) {
            (Transform::Identity | Transform::Truncate(_), ColumnType::Decimal { .. }) => {
                let remedy = format!("use bucket(.., {})", quoted(&self.column));
                Some(("a decimal, and DuckDB (1.5) ends abruptly where it meets such a partition", remedy))
            }
            (Transform::Bucket(_), ColumnType::Uuid) => {
                let what = "and DuckDB (1.5), which hashes uuids in its own way, does not find rows by a single one";
                Some((
                    what,
                    format!("have {} as text (columns: {{{}: {{type: string}}}})", quoted(&self.column), self.column),
                ))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColumnUse, NativeType, Severity, TableMode, TableName};

    fn table(columns: &[(&str, ColumnType)], mode: TableMode) -> TableSchema {
        let column = |(name, ty): &(&str, ColumnType)| Column {
            id: 0,
            name: (*name).to_owned(),
            ty: ty.clone(),
            nullable: false,
            native: NativeType::new(0, -1, "native"),
            usage: ColumnUse::Values,
        };
        TableSchema {
            mode,
            ..TableSchema::new(TableName::new("public", "t"), 1, columns.iter().map(column).collect(), vec![0])
        }
    }

    fn findings(layout: &Layout, mode: TableMode) -> Vec<String> {
        let columns = [
            ("id", ColumnType::Long),
            ("at", ColumnType::Timestamp),
            ("x", ColumnType::Double),
            ("d", ColumnType::Decimal { precision: 2, scale: 0 }),
            ("list", ColumnType::Int.list()),
            ("ok", ColumnType::Boolean),
        ];
        layout.findings(&table(&columns, mode)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_a_table_cannot_have_is_said() {
        let partition = |text: &str| Layout { partition: PartitionBy::parse_list(text).unwrap(), ..Layout::default() };
        let upsert = |layout: &Layout| findings(layout, TableMode::Upsert);
        assert_eq!(
            upsert(&partition("bucket(4, id), day(at), ok, truncate(10, id), bucket(3, d)")),
            Vec::<String>::new()
        );
        let layout = partition("truncate(30, d), bucket(4, u)");
        let warned = layout.findings(&table(
            &[("u", ColumnType::Uuid), ("d", ColumnType::Decimal { precision: 2, scale: 0 })],
            TableMode::Upsert,
        ));
        assert!(warned.len() == 2 && warned.iter().all(|found| found.severity == Severity::Warning), "{warned:?}");
        for (text, says) in [
            ("idd", "names column idd, which the table does not have: correct it; the table has id, at, x"),
            (
                "x",
                "x cannot partition table public.t, where x is double: it takes every type but uuids, floating-point",
            ),
            ("bucket(4, ok)", "every type but booleans"),
            ("list", "every type but uuids, floating-point numbers, lists and maps"),
            ("truncate(4, at)", "it takes int, long, decimal"),
            ("truncate(31, d)", "decimals of 2 digits cannot be rounded down by 31"),
            ("year(id)", "it takes date, timestamp"),
            ("hour(d)", "it takes timestamp"),
            ("year(at), day(at)", "by year(at) and by day(at), of which one follows from the other"),
            ("bucket(4, id), bucket(4, id)", "leave one of them out"),
        ] {
            let found = upsert(&partition(text));
            assert!(found.len() == 1 && found[0].contains(says), "{text}: {found:?}");
        }
        assert_eq!(upsert(&partition("_calve_op")).len(), 1);
        assert_eq!(
            findings(&partition("_calve_op, day(_calve_committed_at)"), TableMode::Append { preimages: false }),
            Vec::<String>::new()
        );
        for (sort, says) in [("list", "cannot be sorted by list"), ("id, id desc", "twice"), ("y", "'sort' of table")] {
            let found = upsert(&Layout { sort: SortBy::parse_list(sort).unwrap(), ..Layout::default() });
            assert!(found.len() == 1 && found[0].contains(says), "{sort}: {found:?}");
        }
        for (filters, says) in [("ok", "has no Bloom filter"), ("y", "'files.bloom_filters' of table")] {
            let found = upsert(&Layout { bloom_filters: BloomFilters::parse(filters).unwrap(), ..Layout::default() });
            assert!(found.len() == 1 && found[0].contains(says), "{filters}: {found:?}");
        }
    }

    #[test]
    fn decimals_are_rounded_down_only_where_their_bytes_hold_it() {
        for (precision, width, holds) in
            [(2, 30, true), (2, 31, false), (4, 22_770, true), (4, 22_771, false), (38, u32::MAX, true)]
        {
            assert_eq!(holds_truncated(precision, width), holds, "{precision} {width}");
        }
    }
}

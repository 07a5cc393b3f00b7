//! How rows of a table map become rows of a schema, and whether the one is still the shape of the other.
//!
//! The log says little of a table (see [`table_map`](super::table_map)); labels, signs and character sets come from the
//! schema where it does not. So the two must agree in everything that both say, or the values would be wrong: what does
//! not fit is a [`Mismatch`], never a guess.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use calve_core::{Column, ColumnType, TableSchema};

use super::Flavour;
use super::cell::{Kind, Length};
use super::decimal::Layout;
use super::native::DeclaredType;
use super::table_map::{Shape, TableMap, code};
use crate::charset::Charset;

/// The log's shape of a table is not that of its schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Mismatch {
    /// Names the column, and both sides.
    pub(crate) what: String,
}

fn mismatch<T>(what: String) -> Result<T, Mismatch> {
    Err(Mismatch { what })
}

/// How rows of one table map are decoded into rows of one schema.
#[derive(Debug)]
pub(crate) struct RowPlan {
    pub(super) schema: Arc<TableSchema>,
    /// As the table map has them.
    pub(super) columns: Vec<ColumnPlan>,
    /// JSON columns among them, each of which has a bit in rows of partial updates.
    pub(super) documents: usize,
}

/// How the cells of one column are decoded.
#[derive(Debug)]
pub(super) struct ColumnPlan {
    pub(super) length: Length,
    /// Where the cells go; None: the schema leaves the column out.
    pub(super) target: Option<Target>,
    pub(super) is_json: bool,
}

/// A column of the schema.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) index: usize,
    pub(super) kind: Kind,
    /// Its place in the key.
    pub(super) key: Option<usize>,
    pub(super) nullable: bool,
    /// For the log.
    name: Box<str>,
    zero_dates: AtomicU64,
}

impl Target {
    /// Counts a zero date that became NULL, and says so the first time.
    pub(super) fn note_zero_date(&self) {
        if self.zero_dates.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(column = %self.name, "a zero date became NULL; further ones are counted only");
        }
    }
}

impl RowPlan {
    /// Matches a table map with a schema.
    ///
    /// Columns correspond in order. Where the map names them the schema may leave some out.
    pub(crate) fn new(flavour: Flavour, map: &TableMap<'_>, schema: &Arc<TableSchema>) -> Result<Self, Mismatch> {
        let targets = targets(map, schema)?;
        let mut columns = Vec::with_capacity(map.columns.len());
        for (place, (shape, target)) in map.columns.iter().zip(&targets).enumerate() {
            let Some(length) = Length::of(*shape) else {
                let name = map.optional.names.get(place).copied().unwrap_or("?");
                return mismatch(format!(
                    "column {name} (number {place}) has type {} with modifier {} in the log, which is not understood",
                    shape.code, shape.modifier
                ));
            };
            let target = match target {
                Some(index) => Some(Self::target(flavour, map, schema, place, *index)?),
                None => None,
            };
            columns.push(ColumnPlan { length, target, is_json: shape.code == code::JSON });
        }
        check_key(map, schema, &targets)?;
        let documents = columns.iter().filter(|column| column.is_json).count();
        Ok(Self { schema: Arc::clone(schema), columns, documents })
    }

    /// The schema that rows are decoded for. A buffer of another one needs a plan of its own.
    pub(crate) fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Zero dates that became NULL so far, by column of the schema.
    pub(crate) fn zero_dates(&self) -> impl Iterator<Item = (usize, u64)> {
        let targets = self.columns.iter().filter_map(|column| column.target.as_ref());
        targets.map(|target| (target.index, target.zero_dates.load(Ordering::Relaxed))).filter(|(_, count)| *count > 0)
    }

    fn target(
        flavour: Flavour,
        map: &TableMap<'_>,
        schema: &TableSchema,
        place: usize,
        index: usize,
    ) -> Result<Target, Mismatch> {
        let (Some(column), Some(shape)) = (schema.columns.get(index), map.columns.get(place)) else {
            return mismatch(format!("there is no column {index}"));
        };
        let name = &column.name;
        let Some(declared) = DeclaredType::parse(&column.native.name) else {
            return mismatch(format!("the type {} of column {name} is not understood", column.native.name));
        };
        // What may be NULL in the log must be so in the lake. The other way round nothing is lost.
        if map.nullable.get(place) && !column.nullable {
            return mismatch(format!("column {name} may be NULL in the log and not in the schema"));
        }
        check_sign(map, place, column, &declared)?;
        let kind = kind(flavour, column, &declared, *shape)?;
        check_text(map, place, column, &declared, &kind)?;
        Ok(Target {
            index,
            kind,
            key: schema.key.iter().position(|key| *key == index),
            nullable: column.nullable,
            name: format!("{}.{name}", schema.table).into_boxed_str(),
            zero_dates: AtomicU64::new(0),
        })
    }
}

/// For each column of the map the schema's.
fn targets(map: &TableMap<'_>, schema: &TableSchema) -> Result<Vec<Option<usize>>, Mismatch> {
    let names = &map.optional.names;
    if map.columns.is_empty() {
        return mismatch("the log has no columns".to_owned());
    }
    if names.is_empty() {
        let (found, expected) = (map.columns.len(), schema.columns.len());
        if found != expected {
            return mismatch(format!("the log has {found} columns and the schema {expected}"));
        }
        return Ok((0..found).map(Some).collect());
    }
    let mut expected = schema.columns.iter().enumerate().peekable();
    let mut targets = Vec::with_capacity(names.len());
    for name in names {
        let next = expected.next_if(|(_, column)| column.name == **name);
        targets.push(next.map(|(index, _)| index));
    }
    match expected.next() {
        None => Ok(targets),
        Some((_, column)) => mismatch(format!(
            "column {} is not in the log where the schema has it: the columns there are {}",
            column.name,
            names.join(", ")
        )),
    }
}

fn check_sign(map: &TableMap<'_>, place: usize, column: &Column, declared: &DeclaredType) -> Result<(), Mismatch> {
    match map.optional.unsigned.get(place).copied().flatten() {
        // YEAR has no sign in any sense that its type would say.
        Some(unsigned) if unsigned != declared.unsigned && declared.base != "year" => {
            let side = |unsigned| if unsigned { "unsigned" } else { "signed" };
            mismatch(format!(
                "column {} is {} in the log and {} in the schema",
                column.name,
                side(unsigned),
                side(declared.unsigned)
            ))
        }
        _ => Ok(()),
    }
}

/// Collations of one character set differ in order only. Character sets and labels must be the same.
fn check_text(
    map: &TableMap<'_>,
    place: usize,
    column: &Column,
    declared: &DeclaredType,
    kind: &Kind,
) -> Result<(), Mismatch> {
    let name = &column.name;
    let is_text =
        matches!(kind, Kind::Text { .. } | Kind::Bytes { .. } | Kind::Padded(_) | Kind::Label(_) | Kind::Labels(_));
    let Some(collation) = map.optional.collation.get(place).copied().flatten().filter(|_| is_text) else {
        return Ok(());
    };
    let Some(logged) = charset_of(collation) else {
        return mismatch(format!("column {name} has collation {collation} in the log, which is unknown"));
    };
    let declared_charset = column.native.character_set.as_deref().unwrap_or(BINARY);
    let expected = Charset::by_name(declared_charset).map_or(declared_charset, |charset| charset.name());
    if logged != expected {
        return mismatch(format!("column {name} has character set {logged} in the log and {expected} in the schema"));
    }
    if let Some(Some(labels)) = map.optional.labels.get(place) {
        let decoded = labels.iter().map(|label| label_text(label, logged)).collect::<Option<Vec<_>>>();
        if decoded.is_none_or(|decoded| decoded.iter().ne(declared.labels.iter().map(|label| &**label))) {
            return mismatch(format!(
                "the labels of column {name} in the log are not those of {} in the schema",
                column.native.name
            ));
        }
    }
    Ok(())
}

/// `binary` is no character set that text could be decoded from, but has a collation like one.
const BINARY: &str = "binary";

fn charset_of(collation: u64) -> Option<&'static str> {
    match u32::try_from(collation).ok()? {
        63 => Some(BINARY),
        id => Charset::by_collation_id(id).map(Charset::name),
    }
}

fn label_text(label: &[u8], charset: &str) -> Option<String> {
    let mut text = Vec::new();
    if charset == BINARY {
        text.extend_from_slice(label);
    } else {
        Charset::by_name(charset)?.decode(label, &mut text).ok()?;
    }
    String::from_utf8(text).ok()
}

/// The primary key is sent together with the names.
fn check_key(map: &TableMap<'_>, schema: &TableSchema, targets: &[Option<usize>]) -> Result<(), Mismatch> {
    if map.optional.names.is_empty() {
        return Ok(());
    }
    let key = map.optional.primary_key.as_deref().unwrap_or_default();
    let found = key.iter().map(|(place, _)| targets.get(*place).copied().flatten());
    if found.eq(schema.key.iter().map(|index| Some(*index))) {
        return Ok(());
    }
    let names = |places: &mut dyn Iterator<Item = &str>| places.collect::<Vec<_>>().join(", ");
    let found = names(&mut key.iter().map(|(place, _)| map.optional.names.get(*place).copied().unwrap_or("?")));
    let expected = names(&mut schema.key_columns().map(|column| column.name.as_str()));
    mismatch(format!("the primary key is ({found}) in the log and ({expected}) in the schema"))
}

/// What becomes of a column's cells, if the log's type is the declared one and the lake's can hold it.
fn kind(flavour: Flavour, column: &Column, declared: &DeclaredType, shape: Shape) -> Result<Kind, Mismatch> {
    let Some(kind) = kind_of(column, declared, shape) else {
        let reason = match (&*declared.base, shape.code) {
            ("vector", _) => "values of VECTOR are not replicated yet: leave the column out",
            ("time" | "datetime" | "timestamp", code::TIME | code::DATETIME | code::TIMESTAMP) => {
                "it is stored in the format of MariaDB 5.3: ALTER TABLE .. FORCE writes it anew"
            }
            _ => "they do not fit",
        };
        return mismatch(format!(
            "column {} has type {} with modifier {} in the log of {flavour:?}, {}{} in the schema, and {:?} in the lake: \
             {reason}",
            column.name,
            shape.code,
            shape.modifier,
            column.native.name,
            column.native.character_set.as_ref().map(|name| format!(" of {name}")).unwrap_or_default(),
            column.ty,
        ));
    };
    Ok(kind)
}

fn kind_of(column: &Column, declared: &DeclaredType, shape: Shape) -> Option<Kind> {
    let Shape { code, modifier } = shape;
    let unsigned = declared.unsigned;
    let number = |index: usize| declared.numbers.get(index).and_then(|number| u16::try_from(*number).ok());
    let decimals = number(0).unwrap_or(0);
    let ty = &column.ty;
    let int = |expected: u8| match ty {
        ColumnType::Int if code == expected && !(unsigned && expected == code::LONG) => {
            Some(Kind::Int { unsigned, long: false })
        }
        ColumnType::Long if code == expected => Some(Kind::Int { unsigned, long: true }),
        _ => None,
    };
    match (&*declared.base, ty) {
        ("tinyint", ColumnType::Boolean) if code == code::TINY => Some(Kind::Flag),
        ("tinyint", _) => int(code::TINY),
        ("smallint", _) => int(code::SHORT),
        ("mediumint", _) => int(code::INT24),
        ("int", _) => int(code::LONG),
        ("bigint", ColumnType::Long) if !unsigned => int(code::LONGLONG),
        ("bigint", ColumnType::Decimal { precision: 20, scale: 0 }) if unsigned && code == code::LONGLONG => {
            Some(Kind::UnsignedLong)
        }
        ("float", ColumnType::Float) if code == code::FLOAT => Some(Kind::Float),
        ("double", ColumnType::Double) if code == code::DOUBLE => Some(Kind::Double),
        ("decimal", _) if code == code::NEWDECIMAL => decimal_kind(declared, modifier, ty),
        ("bit", ColumnType::Boolean) if (code, modifier) == (code::BIT, 1) && number(0) == Some(1) => Some(Kind::Bit),
        ("bit", ColumnType::Long)
            if code == code::BIT && (2..=63).contains(&modifier) && number(0) == Some(modifier) =>
        {
            Some(Kind::Bits(modifier))
        }
        ("bit", ColumnType::Decimal { precision: 20, scale: 0 })
            if (code, modifier) == (code::BIT, 64) && number(0) == Some(64) =>
        {
            Some(Kind::Bits(64))
        }
        ("year", ColumnType::Int) if code == code::YEAR => Some(Kind::Year),
        ("date", ColumnType::Date) if matches!(code, code::DATE | code::NEWDATE) => Some(Kind::Date),
        ("time", ColumnType::Time) => match code {
            code::TIME2 if modifier == decimals => Some(Kind::Time(decimals)),
            code::TIME if decimals == 0 => Some(Kind::OldTime),
            _ => None,
        },
        ("datetime", ColumnType::Timestamp) => match code {
            code::DATETIME2 if modifier == decimals => Some(Kind::Datetime(decimals)),
            code::DATETIME if decimals == 0 => Some(Kind::OldDatetime),
            _ => None,
        },
        ("timestamp", ColumnType::TimestampTz) => match code {
            code::TIMESTAMP2 if modifier == decimals => Some(Kind::Instant(decimals)),
            code::TIMESTAMP if decimals == 0 => Some(Kind::OldInstant),
            _ => None,
        },
        ("enum", ColumnType::String) => {
            let width = if declared.labels.len() < 256 { 1 } else { 2 };
            let fits = (code, modifier) == (code::ENUM, width) && !declared.labels.is_empty();
            fits.then(|| Kind::Label(declared.labels.clone().into_boxed_slice()))
        }
        ("set", ColumnType::String) => {
            let width = match declared.labels.len().div_ceil(8) {
                few @ 1..=4 => few,
                5..=8 => 8,
                _ => return None,
            };
            ((code, usize::from(modifier)) == (code::SET, width))
                .then(|| Kind::Labels(declared.labels.clone().into_boxed_slice()))
        }
        ("json", ColumnType::String) if code == code::JSON => Some(Kind::Json),
        ("uuid", ColumnType::Uuid) if (code, modifier) == (code::STRING, 16) => Some(Kind::Uuid),
        ("inet4", ColumnType::String) if (code, modifier) == (code::STRING, 4) => Some(Kind::Inet4),
        ("inet6", ColumnType::String) if (code, modifier) == (code::STRING, 16) => Some(Kind::Inet6),
        (
            "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring" | "multipolygon"
            | "geometrycollection" | "geomcollection",
            ColumnType::Binary,
        ) if code == code::GEOMETRY => Some(Kind::Geometry),
        _ => string_kind(column, declared, shape),
    }
}

fn decimal_kind(declared: &DeclaredType, modifier: u16, ty: &ColumnType) -> Option<Kind> {
    let [precision, scale] = modifier.to_be_bytes();
    let same = declared.numbers.first() == Some(&precision.into())
        && declared.numbers.get(1).copied().unwrap_or(0) == u32::from(scale);
    let layout = Layout::new(precision, scale).filter(|_| same)?;
    match ty {
        ColumnType::Decimal { precision: p, scale: s } if (*p, *s) == (precision, scale) && precision <= 38 => {
            Some(Kind::Decimal(layout))
        }
        ColumnType::String if precision > 38 => Some(Kind::DecimalText { layout, zerofill: declared.zerofill }),
        _ => None,
    }
}

/// Text and bytes, of fixed length, of a length with a limit, and of any.
fn string_kind(column: &Column, declared: &DeclaredType, shape: Shape) -> Option<Kind> {
    let Shape { code, modifier } = shape;
    let compressed = match code {
        code::BLOB_COMPRESSED | code::VARCHAR_COMPRESSED => true,
        code::STRING | code::VARCHAR | code::BLOB | code::VAR_STRING => false,
        _ => return None,
    };
    let characters = declared.numbers.first().copied();
    let width = match &*declared.base {
        "char" | "binary" if code == code::STRING => characters,
        "varchar" | "varbinary" if matches!(code, code::VARCHAR | code::VAR_STRING) => characters,
        // One byte of it says how the value is compressed.
        "varchar" | "varbinary" if compressed => None,
        "tinytext" | "tinyblob" | "text" | "blob" | "mediumtext" | "mediumblob" | "longtext" | "longblob"
            if matches!(code, code::BLOB | code::BLOB_COMPRESSED) =>
        {
            let expected = match declared.base.get(..1)? {
                "m" => 3,
                "l" => 4,
                "t" if declared.base.starts_with("tiny") => 1,
                _ => 2,
            };
            if modifier != expected {
                return None;
            }
            None
        }
        _ => return None,
    };
    match (&*declared.base, &column.ty) {
        ("binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob", ColumnType::Binary) => {
            if width.is_some_and(|width| width != u32::from(modifier)) {
                return None;
            }
            Some(match &*declared.base {
                "binary" => Kind::Padded(modifier.into()),
                _ => Kind::Bytes { compressed },
            })
        }
        ("char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext", ColumnType::String) => {
            let name = column.native.character_set.as_deref()?;
            let charset = Charset::by_name(name)?;
            if width.is_some_and(|width| width * bytes_per_character(name) != u32::from(modifier)) {
                return None;
            }
            Some(Kind::Text { charset, pad_spaces: declared.base == "char", compressed })
        }
        _ => None,
    }
}

/// `information_schema.CHARACTER_SETS.MAXLEN`: lengths are in characters where the type is written, in bytes in the log.
fn bytes_per_character(charset: &str) -> u32 {
    match charset {
        "utf8mb4" | "utf16" | "utf16le" | "utf32" | "gb18030" => 4,
        "utf8mb3" | "utf8" | "ujis" | "eucjpms" => 3,
        "big5" | "sjis" | "cp932" | "euckr" | "gb2312" | "gbk" | "ucs2" => 2,
        _ => 1,
    }
}

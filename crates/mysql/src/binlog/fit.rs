//! Which conversion the cells of a column need: the type in the log, the declared type and the lake's type taken together.
//! There is none where one of the three does not go with the others.

use calve_core::{Column, ColumnType};

use super::Flavour;
use super::cell::Kind;
use super::decimal::Layout;
use super::native::DeclaredType;
use super::plan::{Mismatch, mismatch};
use super::print::Printed;
use super::table_map::{Shape, code};
use super::value::Labels;
use crate::charset::{Charset, bytes_per_character};

/// What becomes of a column's cells, if the log's type is the declared one and the lake's can hold it.
pub(super) fn kind(flavour: Flavour, column: &Column, declared: &DeclaredType, shape: Shape) -> Result<Kind, Mismatch> {
    let Some(kind) = kind_of(flavour, column, declared, shape) else {
        let reason = match (&*declared.base, shape.code) {
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

fn kind_of(flavour: Flavour, column: &Column, declared: &DeclaredType, shape: Shape) -> Option<Kind> {
    let Shape { code, modifier } = shape;
    let unsigned = declared.unsigned;
    let number = |index: usize| declared.numbers.get(index).and_then(|number| u16::try_from(*number).ok());
    let decimals = number(0).unwrap_or(0);
    let ty = &column.ty;
    let labels = Labels::of_catalog(&declared.labels, column.native.character_set.as_deref().unwrap_or_default());
    let int = |expected: u8| match ty {
        ColumnType::Int if code == expected && !(unsigned && expected == code::LONG) => {
            Some(Kind::Int { unsigned, long: false })
        }
        ColumnType::Long if code == expected => Some(Kind::Int { unsigned, long: true }),
        _ => None,
    };
    let printed = || printed_kind(column, declared, shape);
    let signed_zero = flavour == Flavour::MySql;
    match (&*declared.base, ty) {
        (
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year" | "date" | "time" | "datetime"
            | "timestamp",
            ColumnType::String,
        ) => printed(),
        ("tinyint", ColumnType::Boolean) if code == code::TINY => Some(Kind::Flag),
        ("tinyint", _) => int(code::TINY),
        ("smallint", _) => int(code::SHORT),
        ("mediumint", _) => int(code::INT24),
        ("int", _) => int(code::LONG),
        ("bigint", ColumnType::Long) if !unsigned => int(code::LONGLONG),
        ("bigint", ColumnType::Decimal { precision: 20, scale: 0 }) if unsigned && code == code::LONGLONG => {
            Some(Kind::UnsignedLong)
        }
        ("bigint", ColumnType::Long) if code == code::LONGLONG => Some(Kind::UnsignedAsLong),
        ("float", ColumnType::Double) if code == code::FLOAT => Some(Kind::FloatAsDouble { signed_zero }),
        ("float", ColumnType::Float) if code == code::FLOAT => Some(Kind::Float { signed_zero }),
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
            fits.then_some(Kind::Label(labels))
        }
        ("set", ColumnType::String) => {
            let width = match declared.labels.len().div_ceil(8) {
                few @ 1..=4 => few,
                5..=8 => 8,
                _ => return None,
            };
            ((code, usize::from(modifier)) == (code::SET, width)).then_some(Kind::Labels(labels))
        }
        ("json", ColumnType::String) if code == code::JSON => Some(Kind::Json),
        ("uuid", ColumnType::String) if (code, modifier) == (code::STRING, 16) => Some(Kind::UuidText),
        ("uuid", ColumnType::Uuid) if (code, modifier) == (code::STRING, 16) => Some(Kind::Uuid),
        ("inet4", ColumnType::String) if (code, modifier) == (code::STRING, 4) => Some(Kind::Inet4),
        ("inet6", ColumnType::String) if (code, modifier) == (code::STRING, 16) => Some(Kind::Inet6),
        (
            "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring" | "multipolygon"
            | "geometrycollection" | "geomcollection",
            ColumnType::Binary,
        ) if code == code::GEOMETRY => Some(Kind::Geometry),
        ("vector", ColumnType::List(element)) if **element == ColumnType::Float => {
            let fits = match code {
                code::VECTOR => true,
                // MariaDB's is of one length.
                code::VARCHAR => number(0).and_then(|numbers| numbers.checked_mul(4)) == Some(modifier),
                _ => false,
            };
            fits.then_some(Kind::Vector)
        }
        _ => string_kind(column, declared, shape),
    }
}

/// What is kept as the server prints it, where the log has it in its present form.
fn printed_kind(column: &Column, declared: &DeclaredType, shape: Shape) -> Option<Kind> {
    let Shape { code, modifier } = shape;
    let digits = || declared.numbers.first().copied().unwrap_or(0) == u32::from(modifier);
    let fits = match (&*declared.base, code) {
        ("tinyint", code::TINY)
        | ("smallint", code::SHORT)
        | ("mediumint", code::INT24)
        | ("int", code::LONG)
        | ("bigint", code::LONGLONG)
        | ("year", code::YEAR)
        | ("date", code::DATE | code::NEWDATE) => true,
        ("time", code::TIME2) | ("datetime", code::DATETIME2) | ("timestamp", code::TIMESTAMP2) => digits(),
        _ => false,
    };
    Printed::of(column).filter(|_| fits).map(Kind::Printed)
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
        ColumnType::Decimal { precision, scale } => {
            Some(Kind::DecimalAs { layout, precision: *precision, scale: *scale })
        }
        ColumnType::String => Some(Kind::DecimalText { layout, zerofill: declared.zerofill }),
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

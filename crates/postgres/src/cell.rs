//! One cell from the wire into its column: the only conversion, used by the initial load and by the stream alike.
//!
//! Postgres writes a cell as text or in the type's binary form. Both are decoded here, to the same value to the last bit,
//! whichever of the two the server chose. A value that the lake's type cannot hold is refused, never bent.

use calve_core::{BufferFull, CellRule, ColumnBuffer, ColumnType, Substituted, TableSchema};

use crate::types::oid;
use crate::{datetime, numeric};

/// Why a cell was not appended. Nothing was pushed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CellError {
    /// The value is right, but the column's type in the lake cannot hold it. `what` names the kind of value, and nothing of
    /// the row: it is fit for logs.
    #[error("{what}")]
    Unrepresentable { what: &'static str },
    /// The bytes are not what Postgres writes for this type.
    #[error("the bytes are not {expected}")]
    Malformed { expected: &'static str },
    /// The buffer cannot take more: seal it and decode the row again.
    #[error(transparent)]
    Full(#[from] BufferFull),
}

pub(crate) const fn unrepresentable(what: &'static str) -> CellError {
    CellError::Unrepresentable { what }
}

pub(crate) const fn malformed(expected: &'static str) -> CellError {
    CellError::Malformed { expected }
}

/// How single values of one type are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellKind {
    Boolean,
    /// `smallint` and `integer`.
    Int,
    /// `bigint` and `oid`.
    Long,
    /// `smallint` and `integer` where a long is wanted.
    IntAsLong,
    /// `numeric` where a long is wanted.
    NumericAsLong,
    Float,
    Double,
    /// `real` where a double is wanted.
    RealAsDouble,
    /// `numeric` whose numbers, or those of them that the column holds, fit fits 128 bits.
    Decimal {
        precision: u8,
        scale: u8,
    },
    /// Other `numeric`: the text that the server prints.
    Numeric,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Uuid,
    Bytes,
    /// `geometry` and `geography`, whose binary form is EWKB and whose text that in hex.
    Ewkb,
    /// Types whose binary form is their text.
    Text,
    /// Its binary form is a version byte and the text.
    Jsonb,
    /// Any other type, as the server prints it. Its binary form is not understood, so it is never asked for.
    ServerText,
}

impl CellKind {
    /// The plan for values of a type at the source that have this one in the lake, and these words about it. A type in the lake other
    /// than text belongs to one family of Postgres types, also under a domain; text is told apart by the native type, and one that is
    /// not built in (an enum, an extension's) by its printed form.
    pub(crate) fn of(ty: &ColumnType, native: u32, attributes: &[String]) -> Self {
        match *ty {
            ColumnType::Boolean => Self::Boolean,
            ColumnType::Int => Self::Int,
            ColumnType::Long => match native {
                oid::INT2 | oid::INT4 => Self::IntAsLong,
                oid::NUMERIC => Self::NumericAsLong,
                _ => Self::Long,
            },
            ColumnType::Float => Self::Float,
            ColumnType::Double if native == oid::FLOAT4 => Self::RealAsDouble,
            ColumnType::Double => Self::Double,
            ColumnType::Decimal { precision, scale } => Self::Decimal { precision, scale },
            ColumnType::Binary if !attributes.is_empty() => Self::Ewkb,
            ColumnType::Binary => Self::Bytes,
            ColumnType::Date => Self::Date,
            ColumnType::Time => Self::Time,
            ColumnType::Timestamp => Self::Timestamp,
            ColumnType::TimestampTz => Self::TimestampTz,
            ColumnType::Uuid => Self::Uuid,
            ColumnType::String => match native {
                oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::JSON => Self::Text,
                oid::JSONB => Self::Jsonb,
                oid::NUMERIC => Self::Numeric,
                _ => Self::ServerText,
            },
            ColumnType::List(_) | ColumnType::Map => unreachable!("a list or a map is no single value"),
        }
    }

    /// Appends a cell that came as text.
    pub(crate) fn text(self, bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
        match self {
            Self::Boolean => match bytes {
                b"t" => out.push_bool(true),
                b"f" => out.push_bool(false),
                _ => return Err(malformed("'t' or 'f'")),
            },
            Self::Int => out.push_i32(parse(bytes, "an integer of 32 bits")?),
            Self::Long => out.push_i64(parse(bytes, "an integer of 64 bits")?),
            Self::IntAsLong => out.push_i64(parse::<i32>(bytes, "an integer of 32 bits")?.into()),
            Self::NumericAsLong => out.push_i64(long(numeric::decimal_of_text(bytes, LONG_DIGITS, 0))?),
            Self::Float => out.push_f32(parse(bytes, "a real number")?),
            Self::Double => out.push_f64(parse(bytes, "a double precision number")?),
            Self::RealAsDouble => out.push_f64(parse::<f32>(bytes, "a real number")?.into()),
            Self::Decimal { precision, scale } => out.push_decimal(numeric::decimal_of_text(bytes, precision, scale)?),
            Self::Date => out.push_i32(datetime::date_of_text(bytes)?),
            Self::Time => out.push_i64(datetime::time_of_text(bytes)?),
            Self::Timestamp => out.push_i64(datetime::timestamp_of_text(bytes, false)?),
            Self::TimestampTz => out.push_i64(datetime::timestamp_of_text(bytes, true)?),
            Self::Uuid => out.push_uuid(uuid_of_text(bytes)?),
            Self::Bytes => {
                let digits = bytes
                    .strip_prefix(br"\x")
                    .ok_or(malformed("a bytea in hex form, as bytea_output = hex prints it"))?;
                push_hex(digits, out)?;
            }
            Self::Ewkb => push_hex(bytes, out)?,
            Self::Text | Self::Jsonb | Self::Numeric | Self::ServerText => push_text(bytes, out)?,
        }
        Ok(())
    }

    /// Appends a cell that came in its type's binary form (`typsend`).
    pub(crate) fn binary(self, bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
        match self {
            Self::Boolean => match bytes {
                [0] => out.push_bool(false),
                [1] => out.push_bool(true),
                _ => return Err(malformed("a boolean of 1 byte")),
            },
            Self::Int => out.push_i32(int(bytes)?),
            Self::IntAsLong => out.push_i64(int(bytes)?.into()),
            Self::NumericAsLong => out.push_i64(long(numeric::decimal_of_binary(bytes, LONG_DIGITS, 0))?),
            Self::Long => out.push_i64(match bytes.len() {
                4 => u32::from_be_bytes(array(bytes, "an oid")?).into(),
                _ => i64::from_be_bytes(array(bytes, "a bigint of 8 bytes or an oid of 4")?),
            }),
            Self::Float => out.push_f32(real(bytes)?),
            Self::RealAsDouble => out.push_f64(match real(bytes)? {
                value if value.is_nan() => f64::NAN,
                value => value.into(),
            }),
            Self::Double => {
                let value = f64::from_be_bytes(array(bytes, "a double precision of 8 bytes")?);
                out.push_f64(if value.is_nan() { f64::NAN } else { value });
            }
            Self::Decimal { precision, scale } => {
                out.push_decimal(numeric::decimal_of_binary(bytes, precision, scale)?);
            }
            Self::Numeric => numeric::push_text_of_binary(bytes, out)?,
            Self::Date => out.push_i32(datetime::date_of_binary(bytes)?),
            Self::Time => out.push_i64(datetime::time_of_binary(bytes)?),
            Self::Timestamp | Self::TimestampTz => out.push_i64(datetime::timestamp_of_binary(bytes)?),
            Self::Uuid => out.push_uuid(array(bytes, "a uuid of 16 bytes")?),
            Self::Bytes | Self::Ewkb => out.push_bytes(bytes)?,
            Self::Text => push_text(bytes, out)?,
            Self::Jsonb => match bytes {
                [1, text @ ..] => push_text(text, out)?,
                _ => return Err(malformed("a jsonb of version 1")),
            },
            Self::ServerText => return Err(malformed("text, and a binary form was not asked for")),
        }
        Ok(())
    }
}

/// `smallint` or `integer`.
fn int(bytes: &[u8]) -> Result<i32, CellError> {
    Ok(match bytes.len() {
        2 => i16::from_be_bytes(array(bytes, "a smallint")?).into(),
        _ => i32::from_be_bytes(array(bytes, "an integer of 2 or 4 bytes")?),
    })
}

/// The text form knows one NaN only, so the binary form must not bring another.
fn real(bytes: &[u8]) -> Result<f32, CellError> {
    let value = f32::from_be_bytes(array(bytes, "a real of 4 bytes")?);
    Ok(if value.is_nan() { f32::NAN } else { value })
}

/// Digits of the greatest long.
const LONG_DIGITS: u8 = 19;

/// A whole number as a long.
fn long(number: Result<i128, CellError>) -> Result<i64, CellError> {
    i64::try_from(number?).map_err(|_| unrepresentable("a number beyond the integers of 64 bits"))
}

/// Appends what takes the place of a cell of column `index` that could not be appended, where the column's rule has something
/// for it; counts it, and says so in the log the first time. `nearest` is the value nearest to it.
#[cold]
pub(crate) fn substitute(
    error: CellError,
    nearest: Option<i128>,
    rule: &CellRule,
    (schema, index): (&TableSchema, usize),
    out: &mut ColumnBuffer,
    substituted: &mut Substituted,
) -> Result<(), CellError> {
    let CellError::Unrepresentable { what } = error else { return Err(error) };
    substituted.count(rule.append(nearest, out).ok_or(error)?);
    if rule.is_first() {
        let column = schema.columns.get(index).map_or("?", |column| column.name.as_str());
        let (table, policy) = (&schema.table, rule.policy());
        tracing::warn!(
            %table,
            column,
            on_unrepresentable = %policy,
            "a value that the lake cannot hold was replaced, and so will be others of the column: {what}; `calve status` counts them"
        );
    }
    Ok(())
}

impl CellKind {
    /// The value nearest to a cell that came as text and cannot be held, as the number that its type counts it by. None where none is.
    pub(crate) fn nearest_of_text(self, bytes: &[u8]) -> Option<i128> {
        let text = std::str::from_utf8(bytes).ok()?;
        let signed = |last: i128| Some(if text.starts_with('-') { -last } else { last });
        match self {
            Self::Date => signed(datetime::LAST_DATE.into()),
            Self::Timestamp | Self::TimestampTz => signed(datetime::LAST_TIMESTAMP.into()),
            Self::Time => Some(datetime::LAST_TIME.into()),
            Self::Decimal { precision, scale } => numeric::nearest_of_text(text, precision, scale),
            Self::NumericAsLong => {
                let number = numeric::nearest_of_text(text, LONG_DIGITS, 0)?;
                Some(number.clamp(i64::MIN.into(), i64::MAX.into()))
            }
            _ => None,
        }
    }

    /// As [`nearest_of_text`](Self::nearest_of_text), of a cell in binary form.
    pub(crate) fn nearest_of_binary(self, bytes: &[u8]) -> Option<i128> {
        match self {
            Self::Decimal { .. } | Self::NumericAsLong => {
                self.nearest_of_text(numeric::text_of_binary(bytes).ok()?.as_bytes())
            }
            // Of numbers only the sign matters, which is the first bit.
            _ => self.nearest_of_text(if bytes.first()? & 0x80 == 0 { b"" } else { b"-" }),
        }
    }
}

/// The cell as an array of the length that its type has on the wire.
pub(crate) fn array<const N: usize>(bytes: &[u8], expected: &'static str) -> Result<[u8; N], CellError> {
    bytes.try_into().map_err(|_| malformed(expected))
}

/// A number as Rust reads it: decimal integers, and floats in the shortest form that reads back exactly, `NaN`,
/// `Infinity` and `-Infinity` among them.
fn parse<T: std::str::FromStr>(bytes: &[u8], expected: &'static str) -> Result<T, CellError> {
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or(malformed(expected))
}

fn push_text(bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    // Only a database of encoding SQL_ASCII can hold such bytes: it never converts nor checks.
    let text = std::str::from_utf8(bytes).map_err(|_| unrepresentable("text that is not UTF-8"))?;
    Ok(out.push_str(text)?)
}

/// Two digits a byte.
fn push_hex(digits: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    const EXPECTED: CellError = malformed("bytes in hex form");
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(EXPECTED);
    }
    scratch(pairs.len(), |decoded| {
        for (byte, [high, low]) in decoded.iter_mut().zip(pairs) {
            *byte = hex_digit(*high).ok_or(EXPECTED)? << 4 | hex_digit(*low).ok_or(EXPECTED)?;
        }
        Ok(out.push_bytes(decoded)?)
    })
}

/// `8-4-4-4-12` hex digits.
fn uuid_of_text(bytes: &[u8]) -> Result<[u8; 16], CellError> {
    const EXPECTED: CellError = malformed("a uuid of 32 hex digits in five groups");
    let text: [u8; 36] = array(bytes, "a uuid of 36 characters")?;
    let mut uuid = [0; 16];
    let mut digits = 0;
    for (at, byte) in text.into_iter().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            if byte != b'-' {
                return Err(EXPECTED);
            }
            continue;
        }
        let slot = uuid.get_mut(digits / 2).ok_or(EXPECTED)?;
        *slot = *slot << 4 | hex_digit(byte).ok_or(EXPECTED)?;
        digits += 1;
    }
    Ok(uuid)
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Lends `len` zeroed bytes, from the stack where they are few: cells are many and short.
pub(crate) fn scratch<R>(len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
    let mut stack = [0; 128];
    match stack.get_mut(..len) {
        Some(bytes) => fill(bytes),
        None => fill(&mut vec![0; len]),
    }
}

#[cfg(test)]
#[path = "cell_tests.rs"]
mod tests;

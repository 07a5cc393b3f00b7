//! One value of the snapshot into its column. The binary protocol brings numbers and dates as such, the rest as bytes; what
//! becomes of them is decided by the conversions that the stream uses too.

use calve_core::{Column, ColumnBuffer, ColumnType};
use mysql_async::Value;

use crate::binlog::decimal::{nearest_of_text, push_decimal_of_text};
use crate::binlog::geometry::push_geometry;
use crate::binlog::print::{self, Printed};
use crate::binlog::temporal::{
    DateParts, TimeParts, nearest_datetime, nearest_day, nearest_time, push_date, push_datetime, push_time,
};
use crate::binlog::value::{
    CellError, malformed, push_bit, push_bits, push_flag, push_padded, push_signed, push_text, push_unsigned_as_long,
    push_unsigned_long, push_uuid_text, push_vector,
};
use crate::charset::Charset;
use crate::types::code;

pub(super) use crate::binlog::value::CellError as Fault;

/// How the cells of one column are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Up to `int` in the lake, or `long`.
    Int {
        long: bool,
    },
    UnsignedLong,
    Float,
    Double,
    Decimal {
        precision: u8,
        scale: u8,
    },
    /// `FLOAT` where a double is wanted.
    FloatAsDouble,
    /// What the server would print.
    Printed(Printed),
    /// What the server prints: decimals that are too long, JSON, addresses.
    PrintedText,
    /// `TINYINT(1)` as a boolean.
    Flag,
    Bit,
    Bits(u16),
    Date,
    Time,
    /// `DATETIME`, and `TIMESTAMP` in a session whose zone is UTC.
    Datetime,
    Text {
        charset: Charset,
        /// Of a CHAR.
        pad_spaces: bool,
    },
    Bytes,
    /// `BINARY(n)`.
    Padded(usize),
    Geometry,
    Uuid,
    Vector,
}

impl Kind {
    /// None for a column that no description makes.
    pub(super) fn of(column: &Column) -> Option<Self> {
        let native = &column.native;
        let modifier = || u16::try_from(native.modifier).ok();
        if let Some(printed) = Printed::of(column) {
            return Some(Self::Printed(printed));
        }
        Some(match (&column.ty, native.id) {
            (ColumnType::Boolean, code::BIT) => Self::Bit,
            (ColumnType::Boolean, code::TINY) => Self::Flag,
            (ColumnType::Long | ColumnType::Decimal { .. }, code::BIT) => Self::Bits(modifier()?),
            (ColumnType::Int, _) => Self::Int { long: false },
            (ColumnType::Long, _) => Self::Int { long: true },
            (ColumnType::Decimal { .. }, code::LONGLONG) => Self::UnsignedLong,
            (ColumnType::Decimal { precision, scale }, _) => Self::Decimal { precision: *precision, scale: *scale },
            (ColumnType::Float, _) => Self::Float,
            (ColumnType::Double, code::FLOAT) => Self::FloatAsDouble,
            (ColumnType::Double, _) => Self::Double,
            (ColumnType::Date, _) => Self::Date,
            (ColumnType::Time, _) => Self::Time,
            (ColumnType::Timestamp | ColumnType::TimestampTz, _) => Self::Datetime,
            (ColumnType::Uuid, _) => Self::Uuid,
            (ColumnType::List(_), _) => Self::Vector,
            (ColumnType::Binary, code::GEOMETRY) => Self::Geometry,
            (ColumnType::Binary, code::STRING) => Self::Padded(modifier()?.into()),
            (ColumnType::Binary, _) => Self::Bytes,
            (ColumnType::String, _) => match &native.character_set {
                Some(name) => Self::Text { charset: Charset::by_name(name)?, pad_spaces: is_char(column) },
                None => Self::PrintedText,
            },
            (ColumnType::Boolean | ColumnType::Map, _) => return None,
        })
    }

    /// Appends a value that is not NULL. On an error nothing was.
    pub(super) fn push(self, value: &Value, scratch: &mut Vec<u8>, out: &mut ColumnBuffer) -> Result<(), CellError> {
        match (self, value) {
            (Self::Int { long }, Value::Int(value)) => push_signed(*value, long, out),
            (Self::Int { long: true }, Value::UInt(value)) => push_unsigned_as_long(*value, out),
            (Self::Int { long }, Value::UInt(value)) => {
                push_signed(i64::try_from(*value).map_err(|_| malformed("a signed integer"))?, long, out)
            }
            (Self::Flag, Value::Int(value)) => push_flag(*value, out),
            (Self::UnsignedLong, Value::UInt(value)) => {
                push_unsigned_long(*value, out);
                Ok(())
            }
            // Below 2^63 the driver does not tell signed from unsigned.
            (Self::UnsignedLong, Value::Int(value)) => {
                push_unsigned_long(u64::try_from(*value).map_err(|_| malformed("an unsigned integer"))?, out);
                Ok(())
            }
            (Self::Float, Value::Float(value)) => {
                out.push_f32(*value);
                Ok(())
            }
            (Self::FloatAsDouble, Value::Float(value)) => {
                out.push_f64((*value).into());
                Ok(())
            }
            (Self::Printed(printed), value) => push_printed(printed, value, out),
            (Self::Double, Value::Double(value)) => {
                out.push_f64(*value);
                Ok(())
            }
            (Self::Date, Value::Date(year, month, day, ..)) => push_date(date(*year, *month, *day), out),
            (Self::Datetime, Value::Date(..)) => {
                let (date, time) = instant(value)?;
                push_datetime(date, time, out)
            }
            (Self::Time, Value::Time(..)) => push_time(span(value)?, out),
            (kind, Value::Bytes(bytes)) => kind.push_bytes(bytes, scratch, out),
            _ => Err(malformed("a value of the column's type")),
        }
    }

    /// The value nearest to one that cannot be held, as the number that its type counts it by. None where none is.
    pub(super) fn nearest(self, value: &Value) -> Option<i128> {
        match (self, value) {
            (Self::Flag, Value::Int(value)) => Some((*value > 0).into()),
            (Self::Int { long: true }, Value::UInt(_)) => Some(i64::MAX.into()),
            (Self::Decimal { precision, scale }, Value::Bytes(text)) => nearest_of_text(text, precision, scale),
            (Self::Date, Value::Date(year, month, day, ..)) => nearest_day(date(*year, *month, *day)),
            (Self::Datetime, value) => {
                let (date, time) = instant(value).ok()?;
                nearest_datetime(date, time)
            }
            (Self::Time, value) => Some(nearest_time(span(value).ok()?)),
            _ => None,
        }
    }

    fn push_bytes(self, bytes: &[u8], scratch: &mut Vec<u8>, out: &mut ColumnBuffer) -> Result<(), CellError> {
        match self {
            Self::Decimal { precision, scale } => push_decimal_of_text(bytes, precision, scale, out),
            Self::PrintedText => {
                let text = std::str::from_utf8(bytes).map_err(|_| malformed("text"))?;
                Ok(out.push_str(text)?)
            }
            Self::Bit => push_bit(bytes, out),
            Self::Bits(bits) => push_bits(bytes, bits, out),
            Self::Text { charset, pad_spaces } => push_text(bytes, charset, pad_spaces, scratch, out),
            Self::Bytes => Ok(out.push_bytes(bytes)?),
            Self::Padded(length) => push_padded(bytes, length, scratch, out),
            Self::Geometry => push_geometry(bytes, scratch, out),
            Self::Uuid => push_uuid_text(bytes, out),
            Self::Vector => push_vector(bytes, out),
            _ => Err(malformed("a value of the column's type")),
        }
    }
}

fn push_printed(printed: Printed, value: &Value, out: &mut ColumnBuffer) -> Result<(), CellError> {
    match (printed, value) {
        (Printed::Number { width, .. }, Value::Int(value)) => print::push_number((*value).into(), width, out),
        (Printed::Number { width, .. }, Value::UInt(value)) => print::push_number((*value).into(), width, out),
        (Printed::Year, Value::Int(year)) => print::push_year(*year, out),
        (Printed::Year, Value::UInt(year)) => {
            print::push_year(i64::try_from(*year).map_err(|_| malformed("a YEAR"))?, out)
        }
        (Printed::Date, Value::Date(year, month, day, ..)) => print::push_date(date(*year, *month, *day), out),
        (Printed::Datetime(digits) | Printed::Instant(digits), Value::Date(..)) => {
            let (date, time) = instant(value)?;
            print::push_datetime(date, time, digits, out)
        }
        (Printed::Time(digits), Value::Time(..)) => print::push_time(span(value)?, digits, out),
        _ => Err(malformed("a value of the column's type")),
    }
}

fn instant(value: &Value) -> Result<(DateParts, TimeParts), CellError> {
    let Value::Date(year, month, day, hour, minute, second, microsecond) = *value else {
        return Err(malformed("a DATETIME"));
    };
    let time = TimeParts { negative: false, hour: hour.into(), minute, second, microsecond };
    Ok((date(year, month, day), time))
}

fn span(value: &Value) -> Result<TimeParts, CellError> {
    let Value::Time(negative, days, hours, minute, second, microsecond) = *value else {
        return Err(malformed("a TIME"));
    };
    let hour = days.checked_mul(24).and_then(|hours_of_days| hours_of_days.checked_add(hours.into()));
    Ok(TimeParts { negative, hour: hour.ok_or(malformed("a TIME"))?, minute, second, microsecond })
}

fn date(year: u16, month: u8, day: u8) -> DateParts {
    DateParts { year, month, day }
}

/// `CHAR(n)`, not ENUM or SET, which come with another code.
fn is_char(column: &Column) -> bool {
    column.native.id == code::STRING
}

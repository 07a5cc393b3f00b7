//! One value of the snapshot into its column. The binary protocol brings numbers and dates as such, the rest as bytes; what
//! becomes of them is decided by the conversions that the stream uses too.

use std::borrow::Cow;

use calve_core::{BufferFull, Column, ColumnBuffer, ColumnType};
use mysql_async::Value;

use self::conversion::{
    CellError, DateParts, TimeParts, malformed, push_bit, push_bits, push_date, push_datetime, push_decimal_of_text,
    push_geometry, push_padded, push_signed, push_text, push_time, push_unsigned_long, push_uuid_text,
};
use crate::charset::Charset;
use crate::types::code;

pub(super) use self::conversion::CellError as Fault;

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
    /// What the server prints: decimals that are too long, JSON, addresses.
    PrintedText,
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
}

impl Kind {
    /// None for a column that no description makes.
    pub(super) fn of(column: &Column) -> Option<Self> {
        let native = &column.native;
        let modifier = || u16::try_from(native.modifier).ok();
        Some(match (&column.ty, native.id) {
            (ColumnType::Boolean, code::BIT) => Self::Bit,
            (ColumnType::Long | ColumnType::Decimal { .. }, code::BIT) => Self::Bits(modifier()?),
            (ColumnType::Int, _) => Self::Int { long: false },
            (ColumnType::Long, _) => Self::Int { long: true },
            (ColumnType::Decimal { .. }, code::LONGLONG) => Self::UnsignedLong,
            (ColumnType::Decimal { precision, scale }, _) => Self::Decimal { precision: *precision, scale: *scale },
            (ColumnType::Float, _) => Self::Float,
            (ColumnType::Double, _) => Self::Double,
            (ColumnType::Date, _) => Self::Date,
            (ColumnType::Time, _) => Self::Time,
            (ColumnType::Timestamp | ColumnType::TimestampTz, _) => Self::Datetime,
            (ColumnType::Uuid, _) => Self::Uuid,
            (ColumnType::Binary, code::GEOMETRY) => Self::Geometry,
            (ColumnType::Binary, code::STRING) => Self::Padded(modifier()?.into()),
            (ColumnType::Binary, _) => Self::Bytes,
            (ColumnType::String, _) => match &native.character_set {
                Some(name) => Self::Text { charset: Charset::by_name(name)?, pad_spaces: is_char(column) },
                None => Self::PrintedText,
            },
            (ColumnType::Boolean, _) => return None,
        })
    }

    /// Appends a value that is not NULL. On an error nothing was.
    pub(super) fn push(self, value: &Value, scratch: &mut Vec<u8>, out: &mut ColumnBuffer) -> Result<(), CellError> {
        match (self, value) {
            (Self::Int { long }, Value::Int(value)) => push_signed(*value, long, out),
            (Self::Int { long }, Value::UInt(value)) => {
                push_signed(i64::try_from(*value).map_err(|_| malformed("a signed integer"))?, long, out)
            }
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
            (Self::Double, Value::Double(value)) => {
                out.push_f64(*value);
                Ok(())
            }
            (Self::Date, Value::Date(year, month, day, ..)) => push_date(date(*year, *month, *day), out),
            (Self::Datetime, Value::Date(year, month, day, hour, minute, second, microsecond)) => {
                let time = TimeParts {
                    negative: false,
                    hour: (*hour).into(),
                    minute: *minute,
                    second: *second,
                    microsecond: *microsecond,
                };
                push_datetime(date(*year, *month, *day), time, out)
            }
            (Self::Time, Value::Time(negative, days, hours, minute, second, microsecond)) => {
                let hour = days.checked_mul(24).and_then(|hours_of_days| hours_of_days.checked_add((*hours).into()));
                let hour = hour.ok_or(malformed("a TIME"))?;
                let (minute, second, microsecond) = (*minute, *second, *microsecond);
                push_time(TimeParts { negative: *negative, hour, minute, second, microsecond }, out)
            }
            (kind, Value::Bytes(bytes)) => kind.push_bytes(bytes, scratch, out),
            _ => Err(malformed("a value of the column's type")),
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
            _ => Err(malformed("a value of the column's type")),
        }
    }
}

fn date(year: u16, month: u8, day: u8) -> DateParts {
    DateParts { year, month, day }
}

/// `CHAR(n)`, not ENUM or SET, which come with another code.
fn is_char(column: &Column) -> bool {
    column.native.id == code::STRING
}

/// Conversions by the names that those of the log have.
mod conversion {
    use super::{BufferFull, Charset, ColumnBuffer, Cow};

    const DAY_US: i64 = 86_400_000_000;

    /// Why a value was not appended. Nothing was pushed then.
    #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
    pub(crate) enum CellError {
        /// The value is right, but the column's type in the lake cannot hold it. `what` names the kind of value only.
        #[error("{what}")]
        Unrepresentable { what: &'static str },
        /// A date of which the month or the day is zero. NULL takes its place where it may.
        #[error("a zero date")]
        ZeroDate,
        /// The bytes are not what the server sends for this type.
        #[error("the bytes are not {expected}")]
        Malformed { expected: Cow<'static, str> },
        /// The buffer cannot take more.
        #[error(transparent)]
        Full(#[from] BufferFull),
    }

    pub(crate) const fn unrepresentable(what: &'static str) -> CellError {
        CellError::Unrepresentable { what }
    }

    pub(crate) const fn malformed(expected: &'static str) -> CellError {
        CellError::Malformed { expected: Cow::Borrowed(expected) }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct DateParts {
        pub(crate) year: u16,
        pub(crate) month: u8,
        pub(crate) day: u8,
    }

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct TimeParts {
        pub(crate) negative: bool,
        pub(crate) hour: u32,
        pub(crate) minute: u8,
        pub(crate) second: u8,
        pub(crate) microsecond: u32,
    }

    pub(crate) fn push_signed(value: i64, long: bool, out: &mut ColumnBuffer) -> Result<(), CellError> {
        if long {
            out.push_i64(value);
        } else {
            out.push_i32(i32::try_from(value).map_err(|_| malformed("an integer of 32 bits"))?);
        }
        Ok(())
    }

    pub(crate) fn push_unsigned_long(value: u64, out: &mut ColumnBuffer) {
        out.push_decimal(value.into());
    }

    pub(crate) fn push_bits(bytes: &[u8], bits: u16, out: &mut ColumnBuffer) -> Result<(), CellError> {
        let value = bits_of(bytes, bits)?;
        if bits == 64 {
            push_unsigned_long(value, out);
        } else {
            out.push_i64(value.cast_signed());
        }
        Ok(())
    }

    pub(crate) fn push_bit(bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
        out.push_bool(bits_of(bytes, 1)? == 1);
        Ok(())
    }

    fn bits_of(bytes: &[u8], bits: u16) -> Result<u64, CellError> {
        let value = bytes.iter().fold(0, |value: u64, byte| value << 8 | u64::from(*byte));
        let fits = bits >= 64 || value >> bits == 0;
        if fits && bytes.len() <= 8 { Ok(value) } else { Err(malformed("a bit field of its width")) }
    }

    pub(crate) fn push_date(date: DateParts, out: &mut ColumnBuffer) -> Result<(), CellError> {
        out.push_i32(days(date)?);
        Ok(())
    }

    pub(crate) fn push_datetime(date: DateParts, time: TimeParts, out: &mut ColumnBuffer) -> Result<(), CellError> {
        let midnight = i64::from(days(date)?) * DAY_US;
        let time = microseconds(time)?;
        if !(0..DAY_US).contains(&time) {
            return Err(malformed("a time of a day"));
        }
        out.push_i64(midnight + time);
        Ok(())
    }

    pub(crate) fn push_time(time: TimeParts, out: &mut ColumnBuffer) -> Result<(), CellError> {
        match microseconds(time)? {
            time @ 0..DAY_US => out.push_i64(time),
            ..0 => return Err(unrepresentable("a negative TIME, which is no time of a day")),
            _ => return Err(unrepresentable("a TIME of 24:00:00 or more, which is no time of a day")),
        }
        Ok(())
    }

    fn days(date: DateParts) -> Result<i32, CellError> {
        let DateParts { year, month, day } = date;
        if month == 0 || day == 0 {
            return Err(CellError::ZeroDate);
        }
        if month > 12 || day > 31 || year > 9999 {
            return Err(malformed("a date"));
        }
        let (year, month) = (i32::from(year), i32::from(month));
        let first = first_of_month(year, month);
        let next = if month == 12 { first_of_month(year + 1, 1) } else { first_of_month(year, month + 1) };
        if i32::from(day) > next - first {
            return Err(unrepresentable("a date that is in no calendar, such as February 31st"));
        }
        Ok(first + i32::from(day) - 1)
    }

    fn first_of_month(year: i32, month: i32) -> i32 {
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        year * 365 + leap_days + (153 * month + 2) / 5 - 719_468
    }

    fn microseconds(time: TimeParts) -> Result<i64, CellError> {
        if time.minute > 59 || time.second > 59 || time.microsecond > 999_999 {
            return Err(malformed("a time"));
        }
        let minutes = i64::from(time.hour) * 60 + i64::from(time.minute);
        let time_us = (minutes * 60 + i64::from(time.second)) * 1_000_000 + i64::from(time.microsecond);
        Ok(if time.negative { -time_us } else { time_us })
    }

    pub(crate) fn push_decimal_of_text(
        text: &[u8],
        precision: u8,
        scale: u8,
        out: &mut ColumnBuffer,
    ) -> Result<(), CellError> {
        const EXPECTED: CellError = malformed("a number of the column's precision and scale");
        let (negative, digits) = match text {
            [b'-', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        let point = digits.iter().position(|byte| *byte == b'.').unwrap_or(digits.len());
        let (whole, fraction) = digits.split_at_checked(point).ok_or(EXPECTED)?;
        let fraction = fraction.get(1..).unwrap_or_default();
        let padding = usize::from(scale).checked_sub(fraction.len()).ok_or(EXPECTED)?;
        let mut unscaled: i128 = 0;
        for digit in whole.iter().chain(fraction).copied().chain(std::iter::repeat_n(b'0', padding)) {
            if !digit.is_ascii_digit() {
                return Err(EXPECTED);
            }
            let next = unscaled.checked_mul(10).and_then(|value| value.checked_add((digit - b'0').into()));
            unscaled = next.ok_or(EXPECTED)?;
        }
        let limit = 10_i128.checked_pow(precision.into()).ok_or(EXPECTED)?;
        if unscaled >= limit || (whole.is_empty() && fraction.is_empty()) {
            return Err(EXPECTED);
        }
        out.push_decimal(if negative { -unscaled } else { unscaled });
        Ok(())
    }

    pub(crate) fn push_text(
        bytes: &[u8],
        charset: Charset,
        pad_spaces: bool,
        scratch: &mut Vec<u8>,
        out: &mut ColumnBuffer,
    ) -> Result<(), CellError> {
        const INVALID: CellError = unrepresentable("bytes that are no text of the column's character set");
        let shown = |text: &str, out: &mut ColumnBuffer| {
            out.push_str(if pad_spaces { text.trim_end_matches(' ') } else { text })
        };
        if let Some(text) = charset.as_utf8(bytes).map_err(|_| INVALID)? {
            return Ok(shown(text, out)?);
        }
        scratch.clear();
        charset.decode(bytes, scratch).map_err(|_| INVALID)?;
        let text = std::str::from_utf8(scratch).map_err(|_| INVALID)?;
        Ok(shown(text, out)?)
    }

    pub(crate) fn push_padded(
        bytes: &[u8],
        length: usize,
        scratch: &mut Vec<u8>,
        out: &mut ColumnBuffer,
    ) -> Result<(), CellError> {
        if bytes.len() > length {
            return Err(malformed("as long as its column at most"));
        }
        scratch.clear();
        scratch.extend_from_slice(bytes);
        scratch.resize(length, 0);
        Ok(out.push_bytes(scratch)?)
    }

    /// The server keeps the number of the reference system before well-known binary; EWKB has it behind the type.
    pub(crate) fn push_geometry(bytes: &[u8], scratch: &mut Vec<u8>, out: &mut ColumnBuffer) -> Result<(), CellError> {
        const EXPECTED: CellError = malformed("a geometry");
        const HAS_SRID: u32 = 0x2000_0000;
        let (srid, wkb) = bytes.split_first_chunk::<4>().ok_or(EXPECTED)?;
        let ([order, kind @ ..], rest) = wkb.split_first_chunk::<5>().ok_or(EXPECTED)?;
        let srid = u32::from_le_bytes(*srid);
        if srid == 0 {
            return Ok(out.push_bytes(wkb)?);
        }
        let (kind, srid) = match order {
            0 => ((u32::from_be_bytes(*kind) | HAS_SRID).to_be_bytes(), srid.to_be_bytes()),
            1 => ((u32::from_le_bytes(*kind) | HAS_SRID).to_le_bytes(), srid.to_le_bytes()),
            _ => return Err(EXPECTED),
        };
        scratch.clear();
        scratch.push(*order);
        scratch.extend_from_slice(&kind);
        scratch.extend_from_slice(&srid);
        scratch.extend_from_slice(rest);
        Ok(out.push_bytes(scratch)?)
    }

    /// MariaDB's `UUID` as it is printed. Only the snapshot has it so; the log has its bytes.
    pub(crate) fn push_uuid_text(text: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
        let uuid = uuid::Uuid::try_parse_ascii(text).map_err(|_| malformed("a UUID"))?;
        out.push_uuid(uuid.into_bytes());
        Ok(())
    }
}

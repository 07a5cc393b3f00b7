//! Dates and times: days and microseconds since 1970-01-01, in the proleptic Gregorian calendar that the servers, Arrow and
//! Iceberg share.
//!
//! The functions named `push_` take the parts of a value, as the binary protocol sends them; those named `read_` take
//! them from a row of the log (`my_time.cc`, `my_datetime_packed_from_binary` and its kin).

use calve_core::ColumnBuffer;

use super::value::{CellError, malformed, unrepresentable};
use super::wire::{uint_be, uint_le};

const DAY_US: i64 = 86_400_000_000;

/// A day in a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DateParts {
    pub(crate) year: u16,
    pub(crate) month: u8,
    pub(crate) day: u8,
}

/// A time of a day, or a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeParts {
    pub(crate) negative: bool,
    /// Beyond 23 in spans.
    pub(crate) hour: u32,
    pub(crate) minute: u8,
    pub(crate) second: u8,
    pub(crate) microsecond: u32,
}

/// Appends a `DATE`.
pub(crate) fn push_date(date: DateParts, out: &mut ColumnBuffer) -> Result<(), CellError> {
    out.push_i32(days(date)?);
    Ok(())
}

/// Appends a `DATETIME`, or a `TIMESTAMP` read in UTC.
pub(crate) fn push_datetime(date: DateParts, time: TimeParts, out: &mut ColumnBuffer) -> Result<(), CellError> {
    let midnight = i64::from(days(date)?) * DAY_US;
    let time = microseconds(time)?;
    if !(0..DAY_US).contains(&time) {
        return Err(malformed("a time of a day"));
    }
    out.push_i64(midnight + time);
    Ok(())
}

/// Appends a `TIMESTAMP`. No seconds and no fraction are the zero timestamp.
pub(crate) fn push_instant(seconds: u32, microsecond: u32, out: &mut ColumnBuffer) -> Result<(), CellError> {
    if (seconds, microsecond) == (0, 0) {
        return Err(CellError::ZeroDate);
    }
    if microsecond > 999_999 {
        return Err(malformed("a fraction of a second"));
    }
    out.push_i64(i64::from(seconds) * 1_000_000 + i64::from(microsecond));
    Ok(())
}

/// Appends a `TIME`. The server's are spans of up to 838 hours in both directions, the lake's are times of a day.
pub(crate) fn push_time(time: TimeParts, out: &mut ColumnBuffer) -> Result<(), CellError> {
    match microseconds(time)? {
        time @ 0..DAY_US => out.push_i64(time),
        ..0 => return Err(unrepresentable("a negative TIME, which is no time of a day")),
        _ => return Err(unrepresentable("a TIME of 24:00:00 or more, which is no time of a day")),
    }
    Ok(())
}

/// The time of a day that is nearest to a span that is none.
pub(crate) fn nearest_time(time: TimeParts) -> i128 {
    if time.negative { 0 } else { (DAY_US - 1).into() }
}

/// The day that is nearest to one that its month does not have: the month's last. In days since 1970-01-01.
pub(crate) fn nearest_day(date: DateParts) -> Option<i128> {
    (1..=12).contains(&date.month).then(|| (first_of_next_month(date.year.into(), date.month.into()) - 1).into())
}

/// As [`nearest_day`], at the same time of that day.
pub(crate) fn nearest_datetime(date: DateParts, time: TimeParts) -> Option<i128> {
    Some(nearest_day(date)? * i128::from(DAY_US) + i128::from(microseconds(time).ok()?))
}

/// Days since 1970-01-01.
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
    // Under ALLOW_INVALID_DATES the server checks no more than that the day is 31 at most.
    if i32::from(day) > first_of_next_month(year, month) - first {
        return Err(unrepresentable("a date that is in no calendar, such as February 31st"));
    }
    Ok(first + i32::from(day) - 1)
}

fn first_of_next_month(year: i32, month: i32) -> i32 {
    if month == 12 { first_of_month(year + 1, 1) } else { first_of_month(year, month + 1) }
}

/// Days from 1970-01-01 to the first of a month, in a year that begins with March so that the leap day comes last.
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

/// The low bits of a number, as a smaller one. The mask is narrower than the type at every call.
fn bits<T: TryFrom<u64> + Default>(value: u64, mask: u64) -> T {
    T::try_from(value & mask).unwrap_or_default()
}

/// `DATE`: 3 bytes, little-endian: day in 5 bits, month in 4, year above.
pub(crate) fn read_date(bytes: &[u8]) -> DateParts {
    let packed = uint_le(bytes);
    DateParts { day: bits(packed, 31), month: bits(packed >> 5, 15), year: bits(packed >> 9, 0x7fff) }
}

/// `DATETIME(n)`: 5 bytes, big-endian, with the sign on top, and the fraction: years times 13 and months in 17 bits, day in 5,
/// hour in 5, minute and second in 6 each.
pub(crate) fn read_datetime(bytes: &[u8], decimals: u16) -> Result<(DateParts, TimeParts), CellError> {
    const EXPECTED: CellError = malformed("a DATETIME");
    let (packed, fraction) = bytes.split_at_checked(5).ok_or(EXPECTED)?;
    // Stored with its sign inverted, so that bytes sort as values do. There are no negative ones.
    let packed = uint_be(packed).checked_sub(1 << 39).ok_or(EXPECTED)?;
    let months: u32 = bits(packed >> 22, 0x1_ffff);
    let year = u16::try_from(months / 13).map_err(|_| EXPECTED)?;
    let month = u8::try_from(months % 13).map_err(|_| EXPECTED)?;
    let date = DateParts { year, month, day: bits(packed >> 17, 31) };
    let time = TimeParts {
        negative: false,
        hour: bits(packed >> 12, 31),
        minute: bits(packed >> 6, 63),
        second: bits(packed, 63),
        microsecond: fraction_us(uint_be(fraction), decimals),
    };
    Ok((date, time))
}

/// The number that the server computes with (`TIME_from_longlong_datetime_packed`): as a `DATETIME` of the log, without the
/// inverted sign, and with microseconds in the lowest 24 bits.
pub(crate) fn unpack_datetime(packed: i64) -> Result<(DateParts, TimeParts), CellError> {
    const EXPECTED: CellError = malformed("a packed DATETIME");
    let packed = u64::try_from(packed).map_err(|_| EXPECTED)?;
    let whole = packed >> 24;
    if whole >> 39 != 0 {
        return Err(EXPECTED);
    }
    // The very bytes of a DATETIME(6), but for the inverted sign.
    read_datetime(&(packed | 1 << 63).to_be_bytes(), 6)
}

/// As [`unpack_datetime`], of a `TIME` (`TIME_from_longlong_time_packed`).
pub(crate) fn unpack_time(packed: i64) -> Result<TimeParts, CellError> {
    let magnitude = packed.unsigned_abs();
    let whole = magnitude >> 24;
    if whole >> 22 != 0 {
        return Err(malformed("a packed TIME"));
    }
    Ok(TimeParts {
        negative: packed < 0,
        hour: bits(whole >> 12, 0x3ff),
        minute: bits(whole >> 6, 63),
        second: bits(whole, 63),
        microsecond: bits(magnitude, 0xff_ffff),
    })
}

/// `TIMESTAMP(n)`: seconds since 1970-01-01 UTC, 4 bytes, big-endian, and the fraction.
pub(crate) fn read_instant(bytes: &[u8], decimals: u16) -> Result<(u32, u32), CellError> {
    let (seconds, fraction) = bytes.split_first_chunk::<4>().ok_or(malformed("a TIMESTAMP"))?;
    Ok((u32::from_be_bytes(*seconds), fraction_us(uint_be(fraction), decimals)))
}

/// `TIME(n)`: 3 bytes, big-endian, and the fraction: with the sign on top, hour in 10 bits, minute and second in 6 each.
///
/// The whole, fraction included, is one number with its sign inverted: what is below the middle is negative.
pub(crate) fn read_time(bytes: &[u8], decimals: u16) -> Result<TimeParts, CellError> {
    const EXPECTED: CellError = malformed("a TIME");
    let fraction_bits = u32::from(decimals.div_ceil(2)) * 8;
    if bytes.len() > 6 || bytes.len() < 3 {
        return Err(EXPECTED);
    }
    let middle = 1_i64 << (23 + fraction_bits);
    let packed = uint_be(bytes).cast_signed() - middle;
    let magnitude = packed.unsigned_abs();
    let whole = magnitude >> fraction_bits;
    Ok(TimeParts {
        negative: packed < 0,
        hour: bits(whole >> 12, 0x3ff),
        minute: bits(whole >> 6, 63),
        second: bits(whole, 63),
        microsecond: fraction_us(magnitude & ((1 << fraction_bits) - 1), decimals),
    })
}

/// A fraction is stored in 1, 2 or 3 bytes, which count hundredths, ten-thousandths or millionths.
fn fraction_us(value: u64, decimals: u16) -> u32 {
    let unit = match decimals.div_ceil(2) {
        1 => 10_000,
        2 => 100,
        _ => 1,
    };
    u32::try_from(value * unit).unwrap_or(u32::MAX)
}

/// `DATETIME` of before MySQL 5.6: 8 bytes, little-endian, the digits `YYYYMMDDhhmmss` as a number.
pub(crate) fn read_old_datetime(bytes: &[u8]) -> Result<(DateParts, TimeParts), CellError> {
    let mut rest = uint_le(bytes);
    let mut digits = |unit: u64| {
        let value = rest % unit;
        rest /= unit;
        value
    };
    let (second, minute, hour) = (digits(100), digits(100), digits(100));
    let (day, month, year) = (digits(100), digits(100), digits(100_000));
    if rest != 0 || year > 9999 {
        return Err(malformed("a DATETIME"));
    }
    let date = DateParts { year: bits(year, 0x7fff), month: bits(month, 127), day: bits(day, 127) };
    let time = TimeParts {
        negative: false,
        hour: bits(hour, 127),
        minute: bits(minute, 127),
        second: bits(second, 127),
        microsecond: 0,
    };
    Ok((date, time))
}

/// `TIME` of before MySQL 5.6: 3 bytes, little-endian and signed, the digits `hhmmss` as a number.
pub(crate) fn read_old_time(bytes: &[u8]) -> TimeParts {
    let digits = super::value::signed_le(bytes);
    let magnitude = digits.unsigned_abs();
    TimeParts {
        negative: digits < 0,
        hour: bits(magnitude / 10_000, 0x3ff),
        minute: bits(magnitude / 100 % 100, 127),
        second: bits(magnitude % 100, 127),
        microsecond: 0,
    }
}

/// `TIMESTAMP` of before MySQL 5.6: 4 bytes, little-endian.
pub(crate) fn read_old_instant(bytes: &[u8]) -> u32 {
    bits(uint_le(bytes), u32::MAX.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(negative: bool, hour: u32, minute: u8, second: u8, microsecond: u32) -> TimeParts {
        TimeParts { negative, hour, minute, second, microsecond }
    }

    #[test]
    fn days_count_from_1970() {
        for (year, month, day, expected) in [
            (1970, 1, 1, Ok(0)),
            (1969, 12, 31, Ok(-1)),
            (2000, 2, 29, Ok(11_016)),
            (9999, 12, 31, Ok(2_932_896)),
            (1000, 1, 1, Ok(-354_285)),
            (0, 1, 1, Ok(-719_528)),
            (1900, 2, 29, Err(unrepresentable("a date that is in no calendar, such as February 31st"))),
            (2004, 0, 1, Err(CellError::ZeroDate)),
            (2004, 1, 0, Err(CellError::ZeroDate)),
            (0, 0, 0, Err(CellError::ZeroDate)),
            (2004, 13, 1, Err(malformed("a date"))),
        ] {
            assert_eq!(days(DateParts { year, month, day }), expected, "{year}-{month}-{day}");
        }
    }

    #[test]
    fn the_nearest_to_what_is_in_no_calendar_is_found() {
        for (year, month, expected) in [(1900, 2, -25_509), (2024, 2, 19_782), (2023, 4, 19_477), (2024, 12, 20_088)] {
            assert_eq!(nearest_day(DateParts { year, month, day: 31 }), Some(expected), "{year}-{month}");
        }
        let date = DateParts { year: 1970, month: 2, day: 30 };
        assert_eq!(nearest_datetime(date, time(false, 1, 0, 0, 5)), Some(58 * 86_400_000_000 + 3_600_000_005));
        assert_eq!(nearest_time(time(true, 0, 0, 0, 1)), 0);
        assert_eq!(nearest_time(time(false, 24, 0, 0, 0)), 86_399_999_999);
    }

    /// Bytes from the comment above `TIME_to_longlong_time_packed` in the server and from its definition.
    #[test]
    fn times_keep_their_sign_and_fraction() {
        for (bytes, decimals, expected) in [
            (&[0x80, 0, 0][..], 0, time(false, 0, 0, 0, 0)),
            (&[0x7f, 0xff, 0xff], 0, time(true, 0, 0, 1, 0)),
            (&[0x7f, 0xff, 0xff, 0xff], 2, time(true, 0, 0, 0, 10_000)),
            (&[0x7f, 0xff, 0xff, 0x9d], 2, time(true, 0, 0, 0, 990_000)),
            (&[0x7f, 0xff, 0xff, 0x00], 2, time(true, 0, 0, 1, 0)),
            (&[0x7f, 0xff, 0xfe, 0xff], 2, time(true, 0, 0, 1, 10_000)),
            (&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff], 6, time(true, 0, 0, 0, 1)),
            (&[0x80, 0, 1, 0x27, 0x0f], 4, time(false, 0, 0, 1, 999_900)),
            (&[0xb4, 0x6e, 0xfb], 0, time(false, 838, 59, 59, 0)),
        ] {
            assert_eq!(read_time(bytes, decimals).unwrap(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn old_forms_are_decimal_digits() {
        let (date, of_day) = read_old_datetime(&20_101_112_131_415_u64.to_le_bytes()).unwrap();
        assert_eq!(date, DateParts { year: 2010, month: 11, day: 12 });
        assert_eq!(of_day, time(false, 13, 14, 15, 0));
        // -8385959 in 24 bits.
        let bytes = (-8_385_959_i32).to_le_bytes();
        assert_eq!(read_old_time(&bytes[..3]), time(true, 838, 59, 59, 0));
    }
}

//! Dates and times from the wire: days and microseconds since 1970-01-01, in the proleptic Gregorian calendar that
//! Postgres, Arrow and Iceberg share.
//!
//! The binary forms count from 2000-01-01, with the extreme numbers for infinity. The text forms are those of
//! `datestyle = ISO` (`EncodeDateOnly`, `EncodeTimeOnly`, `EncodeDateTime`): years of four digits and more, `BC` behind.

use crate::cell::{CellError, array, malformed, unrepresentable};

const DATE: CellError = malformed("a date as datestyle = ISO prints it");
const TIME: CellError = malformed("a time");
const TIMESTAMP: CellError = malformed("a timestamp as datestyle = ISO prints it");
const INFINITE: CellError = unrepresentable("infinity, which no date or timestamp of the lake can hold");
const TOO_LATE: CellError = unrepresentable("a timestamp beyond the 64 bits of microseconds around 1970");
const MIDNIGHT_AFTER: CellError = unrepresentable("24:00:00, which is no time of a day");

/// Infinity is nearest to the greatest number, or to its negative: readers show these, and some of them as infinity. The number
/// below is one that not all can read.
pub(crate) const LAST_DATE: i32 = i32::MAX;
pub(crate) const LAST_TIMESTAMP: i64 = i64::MAX;
/// Nearest to 24:00.
pub(crate) const LAST_TIME: i64 = DAY_US - 1;
/// Days from 1970-01-01 to 2000-01-01.
const EPOCH_DAYS: i32 = 10_957;
const DAY_US: i64 = 86_400_000_000;

pub(crate) fn date_of_binary(bytes: &[u8]) -> Result<i32, CellError> {
    match i32::from_be_bytes(array(bytes, "a date of 4 bytes")?) {
        i32::MIN | i32::MAX => Err(INFINITE),
        // The last date of Postgres is 5874897-12-31, so this cannot pass 32 bits.
        days => days.checked_add(EPOCH_DAYS).ok_or(DATE),
    }
}

pub(crate) fn time_of_binary(bytes: &[u8]) -> Result<i64, CellError> {
    match i64::from_be_bytes(array(bytes, "a time of 8 bytes")?) {
        time @ 0..DAY_US => Ok(time),
        DAY_US => Err(MIDNIGHT_AFTER),
        _ => Err(TIME),
    }
}

pub(crate) fn timestamp_of_binary(bytes: &[u8]) -> Result<i64, CellError> {
    match i64::from_be_bytes(array(bytes, "a timestamp of 8 bytes")?) {
        i64::MIN | i64::MAX => Err(INFINITE),
        time => time.checked_add(i64::from(EPOCH_DAYS) * DAY_US).ok_or(TOO_LATE),
    }
}

pub(crate) fn date_of_text(text: &[u8]) -> Result<i32, CellError> {
    if is_infinite(text) {
        return Err(INFINITE);
    }
    let (text, before_christ) = era(text);
    let (days, rest) = date(text, before_christ).ok_or(DATE)?;
    if rest.is_empty() { i32::try_from(days).map_err(|_| DATE) } else { Err(DATE) }
}

pub(crate) fn time_of_text(text: &[u8]) -> Result<i64, CellError> {
    match time(text) {
        Some((DAY_US, [])) => Err(MIDNIGHT_AFTER),
        Some((time @ 0..DAY_US, [])) => Ok(time),
        _ => Err(TIME),
    }
}

/// A timestamp, followed by its offset from UTC where it is one `with_zone`.
pub(crate) fn timestamp_of_text(text: &[u8], with_zone: bool) -> Result<i64, CellError> {
    if is_infinite(text) {
        return Err(INFINITE);
    }
    let (text, before_christ) = era(text);
    let parts = || {
        let (days, rest) = date(text, before_christ)?;
        let (time, rest) = time(rest.strip_prefix(b" ")?)?;
        let (east, rest) = if with_zone { offset(rest)? } else { (0, rest) };
        (rest.is_empty() && time < DAY_US).then_some((days, time, east))
    };
    let (days, time, east) = parts().ok_or(TIMESTAMP)?;
    let instant = i128::from(days) * i128::from(DAY_US) + i128::from(time - east);
    i64::try_from(instant).map_err(|_| TOO_LATE)
}

fn is_infinite(text: &[u8]) -> bool {
    matches!(text, b"infinity" | b"-infinity")
}

fn era(text: &[u8]) -> (&[u8], bool) {
    text.strip_suffix(b" BC").map_or((text, false), |text| (text, true))
}

/// Days since 1970-01-01 of a leading `YYYY-MM-DD`.
fn date(text: &[u8], before_christ: bool) -> Option<(i64, &[u8])> {
    let (year, rest) = digits(text, 4..=7)?;
    let (month, rest) = digits(rest.strip_prefix(b"-")?, 2..=2)?;
    let (day, rest) = digits(rest.strip_prefix(b"-")?, 2..=2)?;
    if year == 0 || !(1..=12).contains(&month) {
        return None;
    }
    // There is no year 0: 1 BC is the year before 1.
    let year = if before_christ { 1 - year } else { year };
    let first = days_before_month(year, month);
    let next = if month == 12 { days_before_month(year + 1, 1) } else { days_before_month(year, month + 1) };
    (1..=next - first).contains(&day).then(|| (first + day - 1, rest))
}

/// Days from 1970-01-01 to the first of a month, in a year that begins with March so that the leap day comes last.
fn days_before_month(year: i64, month: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 - 719_468
}

/// Microseconds of a leading `HH:MM:SS[.ffffff]`, 24:00:00 at most.
fn time(text: &[u8]) -> Option<(i64, &[u8])> {
    let (hour, rest) = digits(text, 2..=2)?;
    let (minute, rest) = digits(rest.strip_prefix(b":")?, 2..=2)?;
    let (second, rest) = digits(rest.strip_prefix(b":")?, 2..=2)?;
    let (fraction, rest) = match rest.strip_prefix(b".") {
        Some(rest) => {
            let (fraction, after) = digits(rest, 1..=6)?;
            let shown = u32::try_from(rest.len() - after.len()).ok()?;
            (fraction * 10_i64.pow(6 - shown), after)
        }
        None => (0, rest),
    };
    if minute > 59 || second > 59 {
        return None;
    }
    let time = ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction;
    (time <= DAY_US).then_some((time, rest))
}

/// Microseconds east of UTC of a leading `±HH[:MM[:SS]]`.
fn offset(text: &[u8]) -> Option<(i64, &[u8])> {
    let (sign, text) = match text {
        [b'+', text @ ..] => (1, text),
        [b'-', text @ ..] => (-1, text),
        _ => return None,
    };
    let (hour, mut rest) = digits(text, 2..=2)?;
    let mut seconds = hour * 3600;
    for unit in [60, 1] {
        let Some(more) = rest.strip_prefix(b":") else { break };
        let (count, after) = digits(more, 2..=2)?;
        seconds += count * unit;
        rest = after;
    }
    Some((sign * seconds * 1_000_000, rest))
}

/// The number that the leading digits make, which must be as many as `count` allows.
fn digits(text: &[u8], count: std::ops::RangeInclusive<usize>) -> Option<(i64, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    if !count.contains(&end) {
        return None;
    }
    Some((digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_as_the_calendar_does() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("2000-03-01", 11_017),
            ("1900-02-28", -25_509),
            ("1900-03-01", -25_508),
            ("0001-01-01", -719_162),
            ("0001-12-31 BC", -719_163),
            ("4714-11-24 BC", -2_440_588),
            ("5874897-12-31", 2_145_042_905),
        ] {
            assert_eq!(date_of_text(text.as_bytes()), Ok(days), "{text}");
        }
    }

    #[test]
    fn each_day_follows_the_one_before() {
        let mut expected = days_before_month(-4800, 1);
        for year in -4800..=2500 {
            for month in 1..=12 {
                assert_eq!(days_before_month(year, month), expected, "{year}-{month}");
                let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
                expected += match month {
                    2 => 28 + i64::from(leap),
                    4 | 6 | 9 | 11 => 30,
                    _ => 31,
                };
            }
        }
    }

    #[test]
    fn what_the_server_never_prints_is_refused() {
        for text in ["", "2000-13-01", "1900-02-29", "0000-01-01", "2000-01-00", "00-01-01", "2000-01-01x", "2000-1-1"]
        {
            assert_eq!(date_of_text(text.as_bytes()), Err(DATE), "{text}");
        }
        for text in ["", "24:00:01", "12:60:00", "12:00", "12:00:00.", "12:00:00.1234567", "-1:00:00", "12:00:00+00"] {
            assert_eq!(time_of_text(text.as_bytes()), Err(TIME), "{text}");
        }
        for text in ["2000-01-01", "2000-01-01 24:00:00+00", "2000-01-01T00:00:00+00", "2000-01-01 00:00:00"] {
            assert_eq!(timestamp_of_text(text.as_bytes(), true), Err(TIMESTAMP), "{text}");
        }
        assert_eq!(timestamp_of_text(b"2000-01-01 00:00:00+00", false), Err(TIMESTAMP));
    }

    #[test]
    fn the_last_microsecond_fits_and_the_next_does_not() {
        assert_eq!(timestamp_of_text(b"294247-01-10 04:00:54.775807", false), Ok(i64::MAX));
        assert_eq!(timestamp_of_text(b"294247-01-10 04:00:54.775808", false), Err(TOO_LATE));
        let last = i64::MAX - i64::from(EPOCH_DAYS) * DAY_US;
        assert_eq!(timestamp_of_binary(&last.to_be_bytes()), Ok(i64::MAX));
        assert_eq!(timestamp_of_binary(&(last + 1).to_be_bytes()), Err(TOO_LATE));
    }

    #[test]
    fn an_offset_is_taken_off() {
        for (text, seconds) in [
            ("1970-01-01 00:00:00+00", 0),
            ("1970-01-01 01:00:00+01", 0),
            ("1969-12-31 16:00:00-08", 0),
            ("1970-01-01 05:30:01+05:30", 1),
            ("1969-12-31 23:59:59-00:00:01", 0),
        ] {
            assert_eq!(timestamp_of_text(text.as_bytes(), true), Ok(seconds * 1_000_000), "{text}");
        }
    }
}

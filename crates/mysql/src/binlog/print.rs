//! Numbers, dates and times as the text that the servers print (`CAST(.. AS CHAR)`), for columns that are kept as text though they
//! are none.
//!
//! Nothing is left out of it: zero dates, negative times and days that are in no calendar are what they are. Floating-point
//! numbers are none of these types, for the servers print fewer digits than they hold.

use std::fmt::Write as _;

use calve_core::{Column, ColumnBuffer, ColumnType};

use super::native::DeclaredType;
use super::temporal::{DateParts, TimeParts};
use super::value::{CellError, malformed};
use crate::types::code;

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Printed {
    /// With zeros before it up to this width.
    Number {
        width: usize,
        unsigned: bool,
    },
    Year,
    Date,
    /// With so many digits of a second, as the others.
    Time(u16),
    Datetime(u16),
    Instant(u16),
}

impl Printed {
    /// None where the column is not kept as text, or is text.
    pub(crate) fn of(column: &Column) -> Option<Self> {
        if column.ty != ColumnType::String {
            return None;
        }
        let digits = u16::try_from(column.native.modifier).ok();
        Some(match column.native.id {
            code::TINY | code::SHORT | code::INT24 | code::LONG | code::LONGLONG => {
                let declared = DeclaredType::parse(&column.native.name)?;
                let width = declared.numbers.first().filter(|_| declared.zerofill);
                let width = width.and_then(|width| usize::try_from(*width).ok()).unwrap_or(0);
                Self::Number { width, unsigned: declared.unsigned }
            }
            code::YEAR => Self::Year,
            code::DATE => Self::Date,
            code::TIME2 => Self::Time(digits?),
            code::DATETIME2 => Self::Datetime(digits?),
            code::TIMESTAMP2 => Self::Instant(digits?),
            _ => return None,
        })
    }
}

/// Appends an integer.
pub(crate) fn push_number(value: i128, width: usize, out: &mut ColumnBuffer) -> Result<(), CellError> {
    Ok(out.push_str(&format!("{value:0width$}"))?)
}

/// Appends a `YEAR`.
pub(crate) fn push_year(year: i64, out: &mut ColumnBuffer) -> Result<(), CellError> {
    Ok(out.push_str(&format!("{year:04}"))?)
}

/// Appends a `DATE`.
pub(crate) fn push_date(date: DateParts, out: &mut ColumnBuffer) -> Result<(), CellError> {
    Ok(out.push_str(&date_text(date))?)
}

/// Appends a `DATETIME`, or a `TIMESTAMP` read in UTC.
pub(crate) fn push_datetime(
    date: DateParts,
    time: TimeParts,
    digits: u16,
    out: &mut ColumnBuffer,
) -> Result<(), CellError> {
    Ok(out.push_str(&format!("{} {}", date_text(date), time_text(time, digits)?))?)
}

/// Appends a `TIMESTAMP`, in UTC. No seconds and no fraction are the zero timestamp.
pub(crate) fn push_instant(
    seconds: u32,
    microsecond: u32,
    digits: u16,
    out: &mut ColumnBuffer,
) -> Result<(), CellError> {
    let date = match (seconds, microsecond) {
        (0, 0) => DateParts { year: 0, month: 0, day: 0 },
        _ => civil(seconds / 86_400),
    };
    let (minute, second) = (seconds / 60 % 60, seconds % 60);
    let time = TimeParts {
        negative: false,
        hour: seconds / 3600 % 24,
        minute: u8::try_from(minute).unwrap_or_default(),
        second: u8::try_from(second).unwrap_or_default(),
        microsecond,
    };
    push_datetime(date, time, digits, out)
}

/// Appends a `TIME`.
pub(crate) fn push_time(time: TimeParts, digits: u16, out: &mut ColumnBuffer) -> Result<(), CellError> {
    let sign = if time.negative { "-" } else { "" };
    Ok(out.push_str(&format!("{sign}{}", time_text(time, digits)?))?)
}

fn date_text(date: DateParts) -> String {
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

fn time_text(time: TimeParts, digits: u16) -> Result<String, CellError> {
    if time.microsecond > 999_999 {
        return Err(malformed("a fraction of a second"));
    }
    let mut text = format!("{:02}:{:02}:{:02}", time.hour, time.minute, time.second);
    if digits > 0 {
        let kept = usize::from(digits).min(6);
        let fraction = format!("{:06}", time.microsecond);
        // Writing to a string cannot fail.
        let _ = write!(text, ".{}", fraction.get(..kept).unwrap_or_default());
    }
    Ok(text)
}

/// The day so many days after 1970-01-01, by years that begin with March in eras of 400.
fn civil(days: u32) -> DateParts {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year + era * 400, month + 3) } else { (year + era * 400 + 1, month - 9) };
    let small = |number: u32| u8::try_from(number).unwrap_or_default();
    DateParts { year: u16::try_from(year).unwrap_or_default(), month: small(month), day: small(day) }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Push<'a> = &'a dyn Fn(&mut ColumnBuffer) -> Result<(), CellError>;

    /// As the servers print them.
    #[test]
    fn texts_are_those_of_the_servers() {
        let time =
            |negative, hour, minute, second, microsecond| TimeParts { negative, hour, minute, second, microsecond };
        let date = |year, month, day| DateParts { year, month, day };
        let cases: [(Push<'_>, &str); 16] = [
            (&|out| push_number(42, 5, out), "00042"),
            (&|out| push_number(123_456, 5, out), "123456"),
            (&|out| push_number(-128, 0, out), "-128"),
            (&|out| push_number(u64::MAX.into(), 0, out), "18446744073709551615"),
            (&|out| push_year(0, out), "0000"),
            (&|out| push_year(2155, out), "2155"),
            (&|out| push_date(date(0, 0, 0), out), "0000-00-00"),
            (&|out| push_date(date(2023, 2, 31), out), "2023-02-31"),
            (&|out| push_time(time(true, 838, 59, 59, 0), 0, out), "-838:59:59"),
            (&|out| push_time(time(true, 0, 0, 0, 4_000), 3, out), "-00:00:00.004"),
            (
                &|out| push_datetime(date(9999, 12, 31), time(false, 23, 59, 59, 999_999), 6, out),
                "9999-12-31 23:59:59.999999",
            ),
            (&|out| push_datetime(date(0, 0, 0), time(false, 0, 0, 0, 0), 3, out), "0000-00-00 00:00:00.000"),
            (&|out| push_instant(0, 0, 2, out), "0000-00-00 00:00:00.00"),
            (&|out| push_instant(0, 500_000, 1, out), "1970-01-01 00:00:00.5"),
            (&|out| push_instant(951_782_400, 0, 0, out), "2000-02-29 00:00:00"),
            (&|out| push_instant(u32::MAX, 999_999, 6, out), "2106-02-07 06:28:15.999999"),
        ];
        for (push, expected) in cases {
            let mut out = ColumnBuffer::new(ColumnType::String);
            push(&mut out).unwrap();
            assert_eq!(calve_core::cell_text(&out, 0).as_deref(), Some(expected));
        }
    }
}

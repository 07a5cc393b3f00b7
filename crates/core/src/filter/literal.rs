//! Texts of a condition as days, times and instants, counted as columns count them.

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Days since 1970-01-01 of `YYYY-MM-DD`.
pub(super) fn day(text: &str) -> Option<i32> {
    let (year, rest) = text.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    let (year, month, day) = (digits(year, 4)?, digits(month, 2)?, digits(day, 2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year == 0 || !(1..=length).contains(&day) {
        return None;
    }
    // Years that begin with March, so that the day of a leap year is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    i32::try_from(days - 719_468).ok()
}

/// Microseconds since midnight of `HH:MM`, `HH:MM:SS` or `HH:MM:SS.ffffff`.
pub(super) fn time(text: &str) -> Option<i64> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, seconds) = rest.split_once(':').unwrap_or((rest, "00"));
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    if fraction.is_empty() || fraction.len() > 6 {
        return None;
    }
    let micros = digits(fraction, fraction.len())? * 10_i64.pow(6 - u32::try_from(fraction.len()).ok()?);
    let (hours, minutes, seconds) = (digits(hours, 2)?, digits(minutes, 2)?, digits(seconds, 2)?);
    (hours < 24 && minutes < 60 && seconds < 60).then(|| ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros)
}

/// Microseconds since 1970-01-01 of a day, or of a day and a time of it.
pub(super) fn timestamp(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once([' ', 'T']).map_or((text, None), |(date, rest)| (date, Some(rest)));
    let of_day = rest.map_or(Some(0), time)?;
    i64::from(day(date)?).checked_mul(DAY)?.checked_add(of_day)
}

/// As [`timestamp`], in UTC, of a text with `Z`, an offset such as `+02:00`, or neither, which is UTC too.
pub(super) fn instant(text: &str) -> Option<i64> {
    if let Some(text) = text.strip_suffix(['Z', 'z']) {
        return timestamp(text);
    }
    // A day has dashes of its own.
    let sign = text.rfind(['+', '-']).filter(|at| text.get(..*at).is_some_and(|before| before.contains(':')));
    let Some(at) = sign else { return timestamp(text) };
    let (local, offset) = text.split_at(at);
    let offset_of = |offset: &str| match offset.split_once(':') {
        Some((hours, minutes)) => Some((digits(hours, 2)?, digits(minutes, 2)?)),
        None => Some((digits(offset, 2)?, 0)),
    };
    let (hours, minutes) = offset_of(&offset[1..]).filter(|(hours, minutes)| *hours < 24 && *minutes < 60)?;
    let offset = (hours * 60 + minutes) * 60_000_000 * if offset.starts_with('-') { -1 } else { 1 };
    timestamp(local)?.checked_sub(offset)
}

/// A number of exactly so many digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|digit| digit.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_times_are_counted_as_columns_count_them() {
        for (text, expected) in [
            ("1970-01-01", Some(0)),
            ("1969-12-31", Some(-1)),
            ("2000-02-29", Some(11_016)),
            ("2024-03-01", Some(19_783)),
            ("9999-12-31", Some(2_932_896)),
            ("0001-01-01", Some(-719_162)),
            ("1900-02-29", None),
            ("2023-13-01", None),
            ("2023-00-01", None),
            ("2023-01-00", None),
            ("2023-1-1", None),
            ("0000-01-01", None),
            ("2023-01-01x", None),
        ] {
            assert_eq!(day(text), expected, "{text}");
        }
        for (text, expected) in [
            ("00:00", Some(0)),
            ("23:59:59.999999", Some(DAY - 1)),
            ("01:02:03.5", Some(3_723_500_000)),
            ("24:00", None),
            ("00:60", None),
            ("00:00:00.", None),
            ("00:00:00.1234567", None),
        ] {
            assert_eq!(time(text), expected, "{text}");
        }
        for (text, expected) in [
            ("1970-01-02", Some(DAY)),
            ("1970-01-01 00:00:01", Some(1_000_000)),
            ("1970-01-01T00:00:01Z", Some(1_000_000)),
            ("1970-01-01 01:00+01", Some(0)),
            ("1970-01-01 01:30:00+01:30", Some(0)),
            ("1969-12-31 23:00:00-01:00", Some(0)),
            ("1970-01-01 00:00+24:00", None),
            ("1970-01-01 00:00+1", None),
            ("1970-01-01 ", None),
        ] {
            assert_eq!(instant(text), expected, "{text}");
        }
    }
}

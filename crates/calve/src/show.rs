//! Quantities and tables of text for people.

use std::io::Write;
use std::time::Duration;

/// Prints to standard output. Nobody may be reading any more (`calve status | head`): that is no error.
pub(crate) fn text(shown: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(shown.as_bytes()).and_then(|()| out.flush());
}

/// As [`text`], and ends the line.
pub(crate) fn line(shown: &str) {
    text(&format!("{shown}\n"));
}

/// `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `0 B`, `12.3 MiB`.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut tenths = u128::from(number) * 10;
    let mut unit = "B";
    for next in UNITS {
        if tenths < 10_240 {
            break;
        }
        tenths /= 1024;
        unit = next;
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// `350ms`, `12s`, `3m 05s`, `2h 10m`, `4d 3h`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.is_zero() => "0s".to_owned(),
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// `2026-11-29T18:30:05Z`, from microseconds since 1970-01-01 UTC.
pub(crate) fn time(micros: i64) -> String {
    let seconds = micros.div_euclid(1_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    format!("{}T{:02}:{:02}:{:02}Z", date(days), second / 3600, second / 60 % 60, second % 60)
}

/// `2026-11-29`, from days since 1970-01-01.
pub(crate) fn date(days: i64) -> String {
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a day counted from 1970-01-01, in the proleptic Gregorian calendar. Years are taken to begin in
/// March, so that the leap day is the last of its year; eras are 400 years, each 146,097 days.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Rows of cells as aligned columns; the first row is the heading.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_readable() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        for (number, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (12_900_000, "12.3 MiB"), (u64::MAX, "16383.9 PiB")]
        {
            assert_eq!(bytes(number), text);
        }
        for (ms, text) in
            [(350, "350ms"), (12_000, "12s"), (185_000, "3m 05s"), (7_800_000, "2h 10m"), (356_400_000, "4d 3h")]
        {
            assert_eq!(duration(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn days_are_dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_786, (2026, 11, 29)),
            (-719_468, (0, 3, 1)),
            (47_482, (2100, 1, 1)),
        ] {
            assert_eq!(civil(days), date, "day {days}");
        }
        assert_eq!(time(1_000_000 * (20_786 * 86_400 + 66_605)), "2026-11-29T18:30:05Z");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["TABLE", "ROWS"], ["a", "1"], ["longer", "20"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "TABLE   ROWS\na       1\nlonger  20\n");
    }
}

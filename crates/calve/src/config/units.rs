//! Durations, sizes and counts as people write them.

use std::time::Duration;

/// `500ms`, `10s`, `5m`, `24h`, `7d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a duration; write a number and ms, s, m, h or d, such as 10s");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(milliseconds).map(Duration::from_millis).ok_or_else(wrong)
}

/// Bytes, or with a unit: `64MB` is 64,000,000, `64MiB` is 67,108,864.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("'{text}' is not a size; write bytes, or a number and kB, MB, GB, KiB, MiB or GiB, such as 64MiB");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(wrong)
}

/// A whole number; underscores may group its digits.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    match split(text) {
        Some((number, "")) => Ok(number),
        _ => Err(format!("'{text}' is not a whole number")),
    }
}

fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number = digits.replace('_', "").parse().ok()?;
    Some((number, unit.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_quantities_are_read() {
        for (text, ms) in [("500ms", 500), ("10s", 10_000), ("5 m", 300_000), ("24h", 86_400_000), ("7d", 604_800_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for (text, n) in [("12", 12), ("1_000 B", 1000), ("64MB", 64_000_000), ("64MiB", 67_108_864), ("2gib", 2 << 30)]
        {
            assert_eq!(bytes(text), Ok(n), "{text}");
        }
        assert_eq!(count("1_000_000"), Ok(1_000_000));
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "10", "s", "-1s", "1.5s", "10 s s", "99999999999999999999s", "18446744073709551615d"] {
            assert!(duration(text).is_err(), "{text} was accepted as a duration");
        }
        for text in ["", "MB", "1TB", "1.5MB", "-1", "18446744073709551615GB"] {
            assert!(bytes(text).is_err(), "{text} was accepted as a size");
        }
        for text in ["", "1k", "_", "1.0"] {
            assert!(count(text).is_err(), "{text} was accepted as a number");
        }
    }
}

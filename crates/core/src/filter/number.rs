//! Numbers as they are written, beside whole numbers that stand for decimals of a scale: exact, whatever their digits.

use std::cmp::Ordering;

/// Powers of ten beyond this are beyond every number of 128 bits.
const DIGITS: i64 = 39;

/// A place on the line of whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// This number.
    At(i128),
    /// Between this number and the next.
    After(i128),
}

impl Point {
    /// Where a number lies among values that count in units of `10^-scale`. None where it is no number.
    pub(super) fn parse(text: &str, scale: u8) -> Option<Self> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
            // Beyond what counts, as far as that goes.
            Some((mantissa, exponent)) => (mantissa, bounded(exponent)?),
            None => (digits, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        // Digits before the point, once the number counts in units.
        let before = i64::try_from(whole.len()).ok()? + exponent + i64::from(scale);
        let (number, rest) = split(&digits, before);
        Some(match (number, sign) {
            (Some(number), false) if rest => Self::After(number),
            (Some(number), true) if rest => Self::After(-number - 1),
            (Some(number), false) => Self::At(number),
            (Some(number), true) => Self::At(-number),
            (None, false) => Self::After(i128::MAX),
            (None, true) => Self::After(i128::MIN),
        })
    }

    /// How a value lies to it.
    pub(super) fn compared(self, value: i128) -> Ordering {
        match self {
            Self::At(number) => value.cmp(&number),
            Self::After(number) if value <= number => Ordering::Less,
            Self::After(_) => Ordering::Greater,
        }
    }
}

/// An exponent; one beyond all bounds is as good as the bound.
fn bounded(exponent: &str) -> Option<i64> {
    const BOUND: i64 = 1_000_000;
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, exponent.strip_prefix('+').unwrap_or(exponent)),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some(sign * digits.parse::<i64>().unwrap_or(BOUND).min(BOUND))
}

/// The first `before` digits as a number (None where 128 bits do not hold it), and whether something other than 0 follows.
fn split(digits: &[u8], before: i64) -> (Option<i128>, bool) {
    let all = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let taken = usize::try_from(before.clamp(0, all)).unwrap_or(0);
    let (whole, rest) = digits.split_at(taken);
    let number =
        whole.iter().try_fold(0_i128, |number, digit| number.checked_mul(10)?.checked_add(i128::from(digit - b'0')));
    let zeros = (before - all).max(0);
    let number = match number {
        Some(0) => Some(0),
        number if zeros == 0 => number,
        Some(number) if zeros < DIGITS => (0..zeros).try_fold(number, |number, _| number.checked_mul(10)),
        _ => None,
    };
    (number, rest.iter().any(|digit| *digit != b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_lies_where_it_is() {
        use Point::{After, At};
        for (text, scale, point) in [
            ("10", 0, At(10)),
            ("-10", 0, At(-10)),
            ("+10.50", 2, At(1050)),
            ("10.5", 0, After(10)),
            ("-10.5", 0, After(-11)),
            ("0.001", 2, After(0)),
            ("-0.001", 2, After(-1)),
            (".5", 1, At(5)),
            ("5.", 1, At(50)),
            ("1e3", 0, At(1000)),
            ("1.25E+2", 0, At(125)),
            ("1250e-2", 0, After(12)),
            ("1e-999999999999", 0, After(0)),
            ("0e99999", 38, At(0)),
            ("1e99999", 0, After(i128::MAX)),
            ("-1e39", 0, After(i128::MIN)),
            ("170141183460469231731687303715884105727", 0, At(i128::MAX)),
            ("170141183460469231731687303715884105728", 0, After(i128::MAX)),
        ] {
            assert_eq!(Point::parse(text, scale), Some(point), "{text} {scale}");
        }
        for text in ["", "-", "1e", "1e+", "x", "1x", ".", "1.2.3"] {
            assert_eq!(Point::parse(text, 0), None, "{text}");
        }
        for (point, value, order) in [
            (At(5), 5, Ordering::Equal),
            (After(5), 5, Ordering::Less),
            (After(5), 6, Ordering::Greater),
            (After(i128::MAX), i128::MAX, Ordering::Less),
        ] {
            assert_eq!(point.compared(value), order, "{point:?} {value}");
        }
    }
}

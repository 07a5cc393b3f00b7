//! Decimals that are no value of a type, and the nearest that are.

/// The greatest unscaled value of so many digits; its negative is the least. `precision` is 1 to 38.
pub const fn greatest_decimal(precision: u8) -> i128 {
    10_i128.pow(precision as u32) - 1
}

/// The unscaled value of the `decimal(precision, scale)` that is nearest to a number in digits, with a point among them or
/// not, and a minus before them or not. Of two that are as near it is the one away from zero, as the databases round. None where
/// the text is no such number.
pub fn nearest_decimal(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (whole, scale) = (whole.trim_start_matches('0'), usize::from(scale));
    let greatest = greatest_decimal(precision);
    let magnitude = if whole.len() + scale > usize::from(precision) {
        greatest
    } else {
        let digit = |byte: u8| i128::from(byte - b'0');
        let kept = whole.bytes().chain(fraction.bytes().chain(std::iter::repeat(b'0')).take(scale));
        let cut = kept.fold(0_i128, |number, byte| number * 10 + digit(byte));
        let up = fraction.as_bytes().get(scale).is_some_and(|next| *next >= b'5');
        (cut + i128::from(up)).min(greatest)
    };
    Some(if negative { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_decimal_is_found_at_the_edges() {
        for (text, precision, scale, expected) in [
            ("1.005", 6, 2, Some(101)),
            ("-1.005", 6, 2, Some(-101)),
            ("1.00499999999999999999999999999999999999999999999", 6, 2, Some(100)),
            ("0.004", 2, 2, Some(0)),
            ("0.999", 2, 2, Some(99)),
            ("9999.994", 6, 2, Some(999_999)),
            ("9999.995", 6, 2, Some(999_999)),
            ("10000", 6, 2, Some(999_999)),
            ("-1e3", 6, 2, None),
            ("0000000000000000000000000000000000000000000000.5", 1, 0, Some(1)),
            ("123456789012345678901234567890123456789012345", 38, 0, Some(greatest_decimal(38))),
            ("-99999999999999999999999999999999999999.5", 38, 0, Some(-greatest_decimal(38))),
            ("99999999999999999999999999999999999998.5", 38, 0, Some(greatest_decimal(38))),
            ("", 6, 2, None),
            ("-", 6, 2, None),
            (".5", 6, 2, None),
            ("1.2.3", 6, 2, None),
            ("NaN", 6, 2, None),
        ] {
            assert_eq!(nearest_decimal(text, precision, scale), expected, "{text} as decimal({precision}, {scale})");
        }
    }
}

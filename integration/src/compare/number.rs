//! Floating-point numbers in the readers' notation, which is Postgres's: the shortest digits that are the number again,
//! plain up to an exponent, scientific beyond.

/// A 64-bit number.
pub(super) fn double(value: f64) -> String {
    let shortest = format!("{value:e}");
    notation(&even(&shortest, |precision| format!("{value:.precision$e}"), |text| text.parse() == Ok(value)), 15)
}

/// A 32-bit number.
pub(super) fn float(value: f32) -> String {
    let shortest = format!("{value:e}");
    notation(&even(&shortest, |precision| format!("{value:.precision$e}"), |text| text.parse() == Ok(value)), 6)
}

/// Where two shortest texts are equally near, readers take the one whose last digit is even, and Rust the greater.
fn even(shortest: &str, rounded: impl Fn(usize) -> String, same: impl Fn(&str) -> bool) -> String {
    let Some((mantissa, _)) = shortest.split_once('e') else { return shortest.to_owned() };
    let precision = mantissa.bytes().filter(u8::is_ascii_digit).count().saturating_sub(1);
    let rounded = rounded(precision);
    if same(&rounded) { rounded } else { shortest.to_owned() }
}

/// From Rust's `d.ddde±x`, whose digits are the shortest too. `plain_below` is the exponent from which on Postgres writes
/// one (`float8out`, `float4out`).
fn notation(scientific: &str, plain_below: i32) -> String {
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return match scientific {
            "inf" => "Infinity".to_owned(),
            "-inf" => "-Infinity".to_owned(),
            other => other.to_owned(),
        };
    };
    let exponent: i32 = exponent.parse().expect("Rust writes a number for an exponent");
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |digits| ("-", digits));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    if digits == "0" {
        return format!("{sign}0");
    }
    if exponent < -4 || exponent >= plain_below {
        let rest = if digits.len() > 1 { format!(".{}", &digits[1..]) } else { String::new() };
        let direction = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{}{rest}e{direction}{:02}", &digits[..1], exponent.abs());
    }
    if exponent < 0 {
        let zeros = usize::try_from(-exponent - 1).unwrap_or_default();
        return format!("{sign}0.{}{digits}", "0".repeat(zeros));
    }
    let whole = usize::try_from(exponent + 1).unwrap_or_default();
    if digits.len() <= whole {
        return format!("{sign}{digits}{}", "0".repeat(whole - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_postgres_writes_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1 + 0.2, "0.30000000000000004"),
            (100_000_000_000_000.0, "100000000000000"),
            (1e15, "1e+15"),
            (2_299_755_599.0 + 0.628_906_25, "2299755599.6289062"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(double(value), expected);
        }
        for (value, expected) in [
            (0.1, "0.1"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.234567e+06"),
            (3.402_823_5e38, "3.4028235e+38"),
            (1e-45, "1e-45"),
        ] {
            assert_eq!(float(value), expected);
        }
    }
}

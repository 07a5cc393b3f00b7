//! How the server prints what is inside a JSON document (`Json_wrapper::to_string`): strings, doubles, and values of SQL
//! types.

use super::decimal::{self, Layout};
use super::json::MALFORMED;
use super::table_map::code;
use super::temporal;
use super::value::CellError;
use super::wire::uint_le;

/// Quotes a string as `double_quote` does: what JSON demands, and nothing more.
pub(super) fn write_string(string: &[u8], text: &mut Vec<u8>) {
    text.push(b'"');
    for byte in string {
        let escaped = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0..=0x1f => {
                text.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                continue;
            }
            _ => {
                text.push(*byte);
                continue;
            }
        };
        text.extend_from_slice(&[b'\\', escaped]);
    }
    text.push(b'"');
}

/// Prints a double as `my_gcvt` does at its full width: the shortest digits that read back exactly, without an exponent
/// where the point is at most 14 zeros before them or 15 places behind the first. A whole number ends in `.0`.
pub(super) fn write_double(number: f64, text: &mut Vec<u8>) -> Result<(), CellError> {
    if !number.is_finite() {
        return Err(MALFORMED);
    }
    let scientific = shortest(number);
    let (mantissa, exponent) = scientific.split_once('e').ok_or(MALFORMED)?;
    let exponent: i32 = exponent.parse().map_err(|_| MALFORMED)?;
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |mantissa| ("-", mantissa));
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    text.extend_from_slice(sign.as_bytes());
    let length = i32::try_from(digits.len()).map_err(|_| MALFORMED)?;
    // Digits before the point.
    let point = exponent + 1;
    if number != 0.0 && (point < -14 || (point > 15 && length <= point)) {
        text.extend(digits.first());
        if let Some(fraction) = digits.get(1..).filter(|fraction| !fraction.is_empty()) {
            text.push(b'.');
            text.extend_from_slice(fraction);
        }
        text.extend_from_slice(format!("e{exponent}").as_bytes());
        return Ok(());
    }
    match usize::try_from(point) {
        Ok(point) if point > 0 => {
            let whole = digits.iter().copied().chain(std::iter::repeat(b'0')).take(point);
            text.extend(whole);
            text.push(b'.');
            let fraction = digits.get(point..).unwrap_or_default();
            text.extend_from_slice(if fraction.is_empty() { b"0" } else { fraction });
        }
        _ => {
            text.extend_from_slice(b"0.");
            text.extend(std::iter::repeat_n(b'0', usize::try_from(-point).unwrap_or_default()));
            text.extend_from_slice(&digits);
        }
    }
    Ok(())
}

/// `1.2345e-7`: the fewest digits that read back as the number, a point behind the first, and the exponent.
///
/// Where two such are equally near the server takes the one that ends in an even digit (`dtoa`), Rust the larger one; its
/// rounding to a given number of digits goes to even as well.
fn shortest(number: f64) -> String {
    let shortest = format!("{number:e}");
    let decimals =
        shortest.split_once('e').and_then(|(mantissa, _)| mantissa.split_once('.')).map_or(0, |(_, d)| d.len());
    let even = format!("{number:.decimals$e}");
    if even.parse() == Ok(number) { even } else { shortest }
}

/// Prints a value of an SQL type: numbers and times as SQL does, other types as their bytes in base64.
pub(super) fn write_opaque(kind: u8, bytes: &[u8], text: &mut Vec<u8>) -> Result<(), CellError> {
    match kind {
        code::NEWDECIMAL | code::DECIMAL => {
            let (head, digits) = bytes.split_first_chunk::<2>().ok_or(MALFORMED)?;
            let [precision, scale] = *head;
            let layout = Layout::computed(precision, scale).ok_or(MALFORMED)?;
            decimal::write_text(digits, layout, false, text)
        }
        code::DATE | code::NEWDATE | code::DATETIME | code::TIMESTAMP | code::DATETIME2 | code::TIMESTAMP2 => {
            let (date, time) = temporal::unpack_datetime(packed(bytes)?)?;
            let date = format!("{:04}-{:02}-{:02}", date.year, date.month, date.day);
            let time = format!("{:02}:{:02}:{:02}.{:06}", time.hour, time.minute, time.second, time.microsecond);
            let quoted = if matches!(kind, code::DATE | code::NEWDATE) {
                format!("\"{date}\"")
            } else {
                format!("\"{date} {time}\"")
            };
            text.extend_from_slice(quoted.as_bytes());
            Ok(())
        }
        code::TIME | code::TIME2 => {
            let time = temporal::unpack_time(packed(bytes)?)?;
            let sign = if time.negative { "-" } else { "" };
            let (hour, minute, second, fraction) = (time.hour, time.minute, time.second, time.microsecond);
            text.extend_from_slice(format!("\"{sign}{hour:02}:{minute:02}:{second:02}.{fraction:06}\"").as_bytes());
            Ok(())
        }
        _ => {
            text.extend_from_slice(format!("\"base64:type{kind}:").as_bytes());
            write_base64(bytes, text);
            text.push(b'"');
            Ok(())
        }
    }
}

/// Times inside documents are the number that the server computes with, in 8 bytes.
fn packed(bytes: &[u8]) -> Result<i64, CellError> {
    if bytes.len() == 8 { Ok(uint_le(bytes).cast_signed()) } else { Err(MALFORMED) }
}

/// In lines of 76 characters, as `base64_encode` of the server breaks them.
fn write_base64(bytes: &[u8], text: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |value: u32| DIGITS.get((value & 63) as usize).copied().unwrap_or(b'=');
    for (index, group) in bytes.chunks(3).enumerate() {
        // Quoted as a string afterwards, a line break is an escape.
        if index > 0 && index % 19 == 0 {
            text.extend_from_slice(b"\\n");
        }
        let value = group.iter().chain([&0, &0]).take(3).fold(0, |value, byte| value << 8 | u32::from(*byte));
        let digits = [digit(value >> 18), digit(value >> 12), digit(value >> 6), digit(value)];
        let kept = group.len() + 1;
        text.extend_from_slice(digits.get(..kept).unwrap_or(&digits));
        text.extend(std::iter::repeat_n(b'=', 4 - kept.min(4)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_printed_as_the_server_prints_them() {
        for (number, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1e14, "100000000000000.0"),
            (1e15, "1e15"),
            (1e20, "1e20"),
            (-1.25e300, "-1.25e300"),
            (1_234_567_890_123_456.5, "1234567890123456.5"),
            (1.234_567_890_123_456_7e16, "1.2345678901234568e16"),
            (1e-14, "0.00000000000001"),
            (1e-15, "0.000000000000001"),
            (1e-16, "1e-16"),
            (1.5e-20, "1.5e-20"),
            (f64::MAX, "1.7976931348623157e308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (5e-324, "5e-324"),
            // Half-way between two of the fewest digits.
            (-(86_469_027_727_256.0 + 0.625), "-86469027727256.62"),
            (631_954_996_829_229.0 + 0.25, "631954996829229.2"),
            (631_954_996_829_229.0 + 0.75, "631954996829229.8"),
            (9_007_199_254_740_992.0, "9.007199254740992e15"),
        ] {
            let mut text = Vec::new();
            write_double(number, &mut text).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
        assert!(write_double(f64::NAN, &mut Vec::new()).is_err());
    }

    #[test]
    fn strings_escape_what_json_demands() {
        let mut text = Vec::new();
        write_string("a\"\\\u{8}\u{c}\n\r\t\u{1}\u{1f}\u{7f}é/".as_bytes(), &mut text);
        let expected = "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\u{7f}é/\"";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}

//! `numeric` from the wire: to an unscaled 128-bit integer, or to the text that the server prints.
//!
//! The binary form (`numeric_send`) is four 16-bit words (digit count, weight, sign, display scale), then the digits in base
//! 10,000. Digit i counts 10,000 to the power of `weight - i`. Leading and trailing zero digits are left out.

use calve_core::{ColumnBuffer, ColumnType, Values, greatest_decimal, nearest_decimal};

use crate::cell::{CellError, malformed, scratch, unrepresentable};

const MALFORMED: CellError = malformed("a numeric");
const NOT_A_NUMBER: CellError = unrepresentable("NaN, which a decimal cannot hold");
const INFINITE: CellError = unrepresentable("Infinity, which a decimal cannot hold");
const TOO_LONG: CellError = unrepresentable("a number with more digits than the decimal type has");

/// A numeric of finite value, as on the wire.
struct Digits<'a> {
    negative: bool,
    /// Of the first digit.
    weight: i32,
    /// Decimal digits that are shown after the point.
    scale: usize,
    /// Big-endian, base 10,000.
    groups: &'a [[u8; 2]],
}

enum Numeric<'a> {
    Finite(Digits<'a>),
    NaN,
    Infinity,
    NegativeInfinity,
}

fn read(bytes: &[u8]) -> Result<Numeric<'_>, CellError> {
    let (header, digits) = bytes.split_first_chunk::<8>().ok_or(MALFORMED)?;
    let [c0, c1, w0, w1, s0, s1, d0, d1] = *header;
    let (groups, rest) = digits.as_chunks::<2>();
    if groups.len() != usize::from(u16::from_be_bytes([c0, c1])) || !rest.is_empty() {
        return Err(MALFORMED);
    }
    let negative = match u16::from_be_bytes([s0, s1]) {
        0x0000 => false,
        0x4000 => true,
        0xc000 => return Ok(Numeric::NaN),
        0xd000 => return Ok(Numeric::Infinity),
        0xf000 => return Ok(Numeric::NegativeInfinity),
        _ => return Err(MALFORMED),
    };
    Ok(Numeric::Finite(Digits {
        negative,
        weight: i16::from_be_bytes([w0, w1]).into(),
        scale: u16::from_be_bytes([d0, d1]).into(),
        groups,
    }))
}

fn group(bytes: [u8; 2]) -> Result<u16, CellError> {
    Some(u16::from_be_bytes(bytes)).filter(|group| *group < 10_000).ok_or(MALFORMED)
}

/// The unscaled value of a `decimal(precision, scale)`.
pub(crate) fn decimal_of_binary(bytes: &[u8], precision: u8, scale: u8) -> Result<i128, CellError> {
    let digits = match read(bytes)? {
        Numeric::Finite(digits) => digits,
        Numeric::NaN => return Err(NOT_A_NUMBER),
        Numeric::Infinity | Numeric::NegativeInfinity => return Err(INFINITE),
    };
    let mut unscaled: u128 = 0;
    // Power of ten, in units of the last decimal, that the present digit counts.
    let mut exponent = digits.weight * 4 + i32::from(scale) + 4;
    for bytes in digits.groups {
        exponent -= 4;
        let group = group(*bytes)?;
        // What the decimals of the group that the type has count, and what cuts off those beyond its last.
        let (kept, cut) = match exponent {
            0.. => (10_000, 1),
            -1 => (1000, 10),
            -2 => (100, 100),
            -3 => (10, 1000),
            _ => (1, 10_000),
        };
        if group % cut != 0 {
            return Err(TOO_LONG);
        }
        let digits = u128::from(group / cut);
        unscaled = unscaled.checked_mul(kept).and_then(|value| value.checked_add(digits)).ok_or(TOO_LONG)?;
    }
    // Digits that were left out on the right are zeros.
    let zeros = u32::try_from(exponent.max(0)).unwrap_or(0);
    signed(shift(unscaled, zeros)?, digits.negative, precision)
}

/// The unscaled value of a `decimal(precision, scale)`.
pub(crate) fn decimal_of_text(bytes: &[u8], precision: u8, scale: u8) -> Result<i128, CellError> {
    let (negative, digits) = match bytes {
        b"NaN" => return Err(NOT_A_NUMBER),
        b"Infinity" | b"-Infinity" => return Err(INFINITE),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let mut unscaled: u128 = 0;
    let mut decimals: Option<u8> = None;
    for byte in digits {
        match (byte, &mut decimals) {
            (b'.', None) => decimals = Some(0),
            // Beyond the last decimal of the type only zeros are the same number.
            (b'0', Some(count)) if *count == scale => {}
            (b'1'..=b'9', Some(count)) if *count == scale => return Err(TOO_LONG),
            (b'0'..=b'9', count) => {
                unscaled = shift(unscaled, 1)?.checked_add(u128::from(byte - b'0')).ok_or(TOO_LONG)?;
                if let Some(count) = count {
                    *count += 1;
                }
            }
            _ => return Err(MALFORMED),
        }
    }
    if !digits.first().is_some_and(u8::is_ascii_digit) {
        return Err(MALFORMED);
    }
    signed(shift(unscaled, u32::from(scale - decimals.unwrap_or(0)))?, negative, precision)
}

/// `value` with `zeros` zeros behind it.
fn shift(value: u128, zeros: u32) -> Result<u128, CellError> {
    if value == 0 {
        return Ok(0);
    }
    10u128.checked_pow(zeros).and_then(|power| value.checked_mul(power)).ok_or(TOO_LONG)
}

fn signed(unscaled: u128, negative: bool, precision: u8) -> Result<i128, CellError> {
    let limit = 10u128.checked_pow(precision.into()).ok_or(TOO_LONG)?;
    if unscaled >= limit {
        return Err(TOO_LONG);
    }
    let value = i128::try_from(unscaled).map_err(|_| TOO_LONG)?;
    Ok(if negative { -value } else { value })
}

/// The unscaled value of the `decimal(precision, scale)` that is nearest to a number, by its text. None where none is.
pub(crate) fn nearest_of_text(text: &str, precision: u8, scale: u8) -> Option<i128> {
    match text {
        "Infinity" => Some(greatest_decimal(precision)),
        "-Infinity" => Some(-greatest_decimal(precision)),
        number => nearest_decimal(number, precision, scale),
    }
}

/// The text that `numeric_out` prints.
pub(crate) fn text_of_binary(bytes: &[u8]) -> Result<String, CellError> {
    let mut text = ColumnBuffer::new(ColumnType::String);
    push_text_of_binary(bytes, &mut text)?;
    match text.values() {
        Values::Bytes { data, .. } => String::from_utf8(data.clone()).map_err(|_| MALFORMED),
        _ => Err(MALFORMED),
    }
}

/// Appends the text that `numeric_out` prints.
pub(crate) fn push_text_of_binary(bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    let digits = match read(bytes)? {
        Numeric::Finite(digits) => digits,
        Numeric::NaN => return Ok(out.push_str("NaN")?),
        Numeric::Infinity => return Ok(out.push_str("Infinity")?),
        Numeric::NegativeInfinity => return Ok(out.push_str("-Infinity")?),
    };
    // Groups left of the point, and right of it as many as the scale shows.
    let whole = usize::try_from(digits.weight + 1).unwrap_or(0);
    let fraction = digits.scale.div_ceil(4);
    scratch(1 + whole.max(1) * 4 + 1 + fraction * 4, |text| {
        let mut end = 0;
        let mut put = |byte: u8| {
            if let Some(slot) = text.get_mut(end) {
                *slot = byte;
                end += 1;
            }
        };
        if digits.negative {
            put(b'-');
        }
        let mut leading = true;
        for index in 0..whole {
            for digit in decimals(digits.group_at(index)?) {
                if leading && digit == b'0' {
                    continue;
                }
                leading = false;
                put(digit);
            }
        }
        if leading {
            put(b'0');
        }
        if digits.scale > 0 {
            put(b'.');
        }
        let mut left = digits.scale;
        for index in 0..fraction {
            // Group `weight + 1` is the first right of the point; those before the first group are zero.
            let place = usize::try_from(digits.weight + 1).map_or_else(
                |_| index.checked_sub(digits.weight.unsigned_abs() as usize - 1),
                |first| first.checked_add(index),
            );
            let group = place.map_or(Ok(0), |place| digits.group_at(place))?;
            for digit in decimals(group).into_iter().take(left) {
                put(digit);
            }
            left = left.saturating_sub(4);
        }
        let text = text.get(..end).and_then(|text| std::str::from_utf8(text).ok()).ok_or(MALFORMED)?;
        Ok(out.push_str(text)?)
    })
}

impl Digits<'_> {
    /// Group `index` counted from the first; those that were left out on the right are zero.
    fn group_at(&self, index: usize) -> Result<u16, CellError> {
        self.groups.get(index).map_or(Ok(0), |bytes| group(*bytes))
    }
}

/// The four decimal digits of a group, as text.
fn decimals(group: u16) -> [u8; 4] {
    let digit = |unit: u16| b'0' + u8::try_from(group / unit % 10).unwrap_or(0);
    [digit(1000), digit(100), digit(10), digit(1)]
}

//! `DECIMAL(p,s)` as rows have it: to an unscaled 128-bit integer, or to the text that the server prints.
//!
//! Digits come in big-endian groups of nine in four bytes each, counted from the point in both directions; what is left at
//! either end takes fewer bytes. The first bit is inverted, and of a negative number all others as well (`decimal2bin`).

use calve_core::{ColumnBuffer, nearest_decimal};

use super::value::{CellError, malformed, unrepresentable};

const MALFORMED: CellError = malformed("a DECIMAL of its precision and scale");
const TOO_LONG: CellError = unrepresentable("a number with more digits than the decimal type has");

/// Decimal digits of a whole group.
const GROUP: u8 = 9;
/// Bytes of a group of so many digits.
const GROUP_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
/// The largest precision and scale of a column.
const PRECISION_MAX: u8 = 65;
/// The largest precision that a number in a JSON document says it has. The server counts the digits of the groups that it computes with,
/// nine at most (`DECIMAL_BUFF_LENGTH`), also where the first has fewer: of 65 nines it is 72.
const COMPUTED_PRECISION_MAX: u8 = 81;

/// How the digits of a type are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    precision: u8,
    scale: u8,
}

impl Layout {
    /// None where there is no such type.
    pub(crate) fn new(precision: u8, scale: u8) -> Option<Self> {
        Self::within(PRECISION_MAX, precision, scale)
    }

    /// Of a number that is no column's. None where the server computes with none such.
    pub(super) fn computed(precision: u8, scale: u8) -> Option<Self> {
        Self::within(COMPUTED_PRECISION_MAX, precision, scale)
    }

    fn within(most: u8, precision: u8, scale: u8) -> Option<Self> {
        ((1..=most).contains(&precision) && scale <= precision).then_some(Self { precision, scale })
    }

    /// Bytes of a value.
    pub(crate) fn bytes(self) -> usize {
        self.groups().map(group_bytes).sum()
    }

    /// Digits of each group, from the left: a part, whole ones, the point, whole ones, a part.
    fn groups(self) -> impl Iterator<Item = u8> {
        let whole = self.precision - self.scale;
        let left = std::iter::once(whole % GROUP).chain(std::iter::repeat_n(GROUP, usize::from(whole / GROUP)));
        let right = std::iter::repeat_n(GROUP, usize::from(self.scale / GROUP));
        left.chain(right).chain(std::iter::once(self.scale % GROUP)).filter(|digits| *digits > 0)
    }

    /// Calls `group` with each group's value and digits, from the left. Returns whether the number is negative.
    fn read(self, bytes: &[u8], mut group: impl FnMut(u32, u8) -> Result<(), CellError>) -> Result<bool, CellError> {
        if bytes.len() != self.bytes() {
            return Err(MALFORMED);
        }
        let negative = bytes.first().is_some_and(|first| first & 0x80 == 0);
        let flip = if negative { 0xff } else { 0 };
        let mut rest = bytes;
        let mut first = 0x80;
        for digits in self.groups() {
            let (taken, after) = rest.split_at_checked(group_bytes(digits)).ok_or(MALFORMED)?;
            rest = after;
            let mut value = 0;
            for byte in taken {
                value = value << 8 | u32::from(byte ^ flip ^ first);
                first = 0;
            }
            if value >= 10_u32.pow(digits.into()) {
                return Err(MALFORMED);
            }
            group(value, digits)?;
        }
        Ok(negative)
    }
}

fn group_bytes(digits: u8) -> usize {
    GROUP_BYTES.get(usize::from(digits)).copied().unwrap_or_default()
}

/// Appends a value to a decimal column of the same precision and scale.
pub(crate) fn push_decimal(bytes: &[u8], layout: Layout, out: &mut ColumnBuffer) -> Result<(), CellError> {
    let mut unscaled: i128 = 0;
    let negative = layout.read(bytes, |value, digits| {
        // 38 digits at most: no overflow, but bytes decide nothing here.
        unscaled = unscaled
            .checked_mul(10_i128.pow(digits.into()))
            .and_then(|shifted| shifted.checked_add(value.into()))
            .ok_or(TOO_LONG)?;
        Ok(())
    })?;
    out.push_decimal(if negative { -unscaled } else { unscaled });
    Ok(())
}

/// Appends the text that the server prints, for types that no decimal of the lake holds.
pub(crate) fn push_decimal_text(
    bytes: &[u8],
    layout: Layout,
    zerofill: bool,
    scratch: &mut Vec<u8>,
    out: &mut ColumnBuffer,
) -> Result<(), CellError> {
    scratch.clear();
    write_text(bytes, layout, zerofill, scratch)?;
    let text = std::str::from_utf8(scratch).map_err(|_| MALFORMED)?;
    Ok(out.push_str(text)?)
}

/// Writes the number with all its decimals, and with zeros before it only where the column has them filled in.
pub(crate) fn write_text(bytes: &[u8], layout: Layout, zerofill: bool, text: &mut Vec<u8>) -> Result<(), CellError> {
    let start = text.len();
    // One place for the sign, which is known at the end.
    text.push(b'-');
    let mut left = layout.precision - layout.scale;
    if left == 0 {
        text.extend_from_slice(b"0.");
    }
    let mut leading = !zerofill;
    let negative = layout.read(bytes, |value, digits| {
        for place in (0..digits).rev() {
            let digit = u8::try_from(value / 10_u32.pow(place.into()) % 10).unwrap_or_default();
            // The digit before the point is printed always.
            leading = leading && digit == 0 && left > 1;
            if !leading {
                text.push(b'0' + digit);
            }
            if left > 0 {
                left -= 1;
                if left == 0 && layout.scale > 0 {
                    text.push(b'.');
                }
                if left == 0 {
                    leading = false;
                }
            }
        }
        Ok(())
    })?;
    if !negative {
        text.remove(start);
    }
    Ok(())
}

/// Appends a number that came as text, such as the snapshot's, to a decimal column.
pub(crate) fn push_decimal_of_text(
    text: &[u8],
    precision: u8,
    scale: u8,
    out: &mut ColumnBuffer,
) -> Result<(), CellError> {
    out.push_decimal(unscaled_of_text(text, precision, scale)?);
    Ok(())
}

/// The unscaled value nearest to a number in digits that has too many of them.
pub(crate) fn nearest_of_text(text: &[u8], precision: u8, scale: u8) -> Option<i128> {
    nearest_decimal(std::str::from_utf8(text).ok()?, precision, scale)
}

fn unscaled_of_text(text: &[u8], precision: u8, scale: u8) -> Result<i128, CellError> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let mut unscaled: i128 = 0;
    let mut decimals: Option<u8> = None;
    for byte in digits {
        match (byte, &mut decimals) {
            (b'.', None) => decimals = Some(0),
            // Beyond the last decimal of the type zeros change nothing.
            (b'0', Some(count)) if *count == scale => {}
            (b'0'..=b'9', count) => {
                unscaled = unscaled
                    .checked_mul(10)
                    .and_then(|shifted| shifted.checked_add((byte - b'0').into()))
                    .ok_or(TOO_LONG)?;
                if let Some(count) = count {
                    *count = count.checked_add(1).filter(|count| *count <= scale).ok_or(TOO_LONG)?;
                }
            }
            _ => return Err(MALFORMED),
        }
    }
    if !digits.iter().any(u8::is_ascii_digit) {
        return Err(MALFORMED);
    }
    let missing = scale - decimals.unwrap_or(0);
    let unscaled = 10_i128
        .checked_pow(missing.into())
        .and_then(|power| unscaled.checked_mul(power))
        .filter(|value| 10_i128.checked_pow(precision.into()).is_some_and(|limit| *value < limit))
        .ok_or(TOO_LONG)?;
    Ok(if negative { -unscaled } else { unscaled })
}

#[cfg(test)]
mod tests {
    use calve_core::{ColumnType, Values};

    use super::*;

    fn text(bytes: &[u8], precision: u8, scale: u8, zerofill: bool) -> Result<String, CellError> {
        let mut text = Vec::new();
        write_text(bytes, Layout::new(precision, scale).unwrap(), zerofill, &mut text)?;
        Ok(String::from_utf8(text).unwrap())
    }

    /// The first is the example of the comment above `decimal2bin`.
    #[test]
    fn digits_come_in_groups_around_the_point() {
        for (bytes, precision, scale, zerofill, expected) in [
            (&[0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2][..], 14, 4, false, "1234567890.1234"),
            (&[0x7e, 0xf2, 0x04, 0xc7, 0x2d, 0xfb, 0x2d], 14, 4, false, "-1234567890.1234"),
            (&[0x80, 0, 0, 0, 0, 0, 0], 14, 4, false, "0.0000"),
            (&[0x80, 0, 0, 0, 5, 0, 0], 14, 4, true, "0000000005.0000"),
            (&[0x85], 2, 2, false, "0.05"),
            (&[0x85], 2, 0, false, "5"),
            (&[0x80], 2, 0, false, "0"),
            (&[0x76], 1, 0, false, "-9"),
        ] {
            assert_eq!(text(bytes, precision, scale, zerofill).as_deref(), Ok(expected), "{bytes:?}");
        }
        for (bytes, precision, scale) in [(&[0x80, 0][..], 2, 0), (&[0xe4], 2, 0), (&[], 1, 0)] {
            assert_eq!(text(bytes, precision, scale, false), Err(MALFORMED), "{bytes:?}");
        }
    }

    #[test]
    fn text_and_bytes_give_the_same_number() {
        let mut out = ColumnBuffer::new(ColumnType::Decimal { precision: 14, scale: 4 });
        let layout = Layout::new(14, 4).unwrap();
        push_decimal(&[0x7e, 0xf2, 0x04, 0xc7, 0x2d, 0xfb, 0x2d], layout, &mut out).unwrap();
        push_decimal_of_text(b"-1234567890.1234", 14, 4, &mut out).unwrap();
        push_decimal_of_text(b"-1234567890", 14, 4, &mut out).unwrap();
        push_decimal_of_text(b"0.5", 14, 4, &mut out).unwrap();
        push_decimal_of_text(b"-0.00010000000000000000", 14, 4, &mut out).unwrap();
        for (text, nearest) in
            [(&b"1.00005"[..], 10_001), (b"-12345678901", -99_999_999_999_999), (b"1.00004999", 10_000)]
        {
            let error = push_decimal_of_text(text, 14, 4, &mut out).unwrap_err();
            assert_eq!((error, nearest_of_text(text, 14, 4)), (TOO_LONG, Some(nearest)));
        }
        for bad in [&b"1.23456"[..], b"12345678901", b"", b"-", b".", b"1e5"] {
            assert!(push_decimal_of_text(bad, 14, 4, &mut out).is_err(), "{bad:?}");
        }
        let Values::Decimal(values) = out.values() else { unreachable!() };
        assert_eq!(values, &[-12_345_678_901_234, -12_345_678_901_234, -12_345_678_900_000, 5000, -1]);
    }
}

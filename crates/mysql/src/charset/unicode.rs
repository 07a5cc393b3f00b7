//! Unicode in forms other than UTF-8. None where the bytes are not of the form.

/// Two bytes a character, none of them half of a pair.
pub(super) fn ucs2(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (units, rest) = bytes.as_chunks::<2>();
    units.iter().try_for_each(|unit| push(u16::from_be_bytes(*unit).into(), out))?;
    rest.is_empty().then_some(())
}

pub(super) fn utf16(bytes: &[u8], little: bool, out: &mut Vec<u8>) -> Option<()> {
    let (units, rest) = bytes.as_chunks::<2>();
    let units = units.iter().map(|unit| if little { u16::from_le_bytes(*unit) } else { u16::from_be_bytes(*unit) });
    for c in char::decode_utf16(units) {
        push(c.ok()?.into(), out)?;
    }
    rest.is_empty().then_some(())
}

pub(super) fn utf32(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (points, rest) = bytes.as_chunks::<4>();
    points.iter().try_for_each(|point| push(u32::from_be_bytes(*point), out))?;
    rest.is_empty().then_some(())
}

/// The one set of several bytes that `encoding_rs` reads as the server does, over all of Unicode.
pub(super) fn gb18030(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    // The server knows no byte 0x80, which browsers take for a euro sign.
    let text = encoding_rs::GB18030.decode_without_bom_handling_and_without_replacement(bytes)?;
    out.extend_from_slice(text.as_bytes());
    Some(())
}

/// Appends a character; None for half of a pair and for what is beyond Unicode.
pub(super) fn push(point: u32, out: &mut Vec<u8>) -> Option<()> {
    let c = char::from_u32(point)?;
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}

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

/// Two bytes that the server keeps in the private use area, where the standard had them until 2005, and `encoding_rs` has
/// where the standard put them since, as browsers do.
const GB18030_PRIVATE: [(u16, u16); 19] = [
    (0xA3A0, 0xE5E5),
    (0xA6D9, 0xE78D),
    (0xA6DA, 0xE78E),
    (0xA6DB, 0xE78F),
    (0xA6DC, 0xE790),
    (0xA6DD, 0xE791),
    (0xA6DE, 0xE792),
    (0xA6DF, 0xE793),
    (0xA6EC, 0xE794),
    (0xA6ED, 0xE795),
    (0xA6F3, 0xE796),
    (0xFE59, 0xE81E),
    (0xFE61, 0xE826),
    (0xFE66, 0xE82B),
    (0xFE67, 0xE82C),
    (0xFE6D, 0xE832),
    (0xFE7E, 0xE843),
    (0xFE90, 0xE854),
    (0xFEA0, 0xE864),
];

/// The one set of several bytes that `encoding_rs` reads as the server does, but for [`GB18030_PRIVATE`].
pub(super) fn gb18030(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let plain = |bytes: &[u8], out: &mut Vec<u8>| {
        let text = encoding_rs::GB18030.decode_without_bom_handling_and_without_replacement(bytes)?;
        out.extend_from_slice(text.as_bytes());
        Some(())
    };
    // What was not decoded yet begins at `rest`, the next character at `at`.
    let (mut rest, mut at) = (0, 0);
    while let Some(first) = bytes.get(at) {
        let second = bytes.get(at + 1).copied();
        let length = match (first, second) {
            (0..=0x7F, _) => 1,
            // Browsers take this one for a euro sign.
            (0x80, _) => return None,
            (_, Some(0x30..=0x39)) => 4,
            _ => 2,
        };
        let pair = second.filter(|_| length == 2).map(|second| u16::from_be_bytes([*first, second]));
        if let Some((_, point)) = GB18030_PRIVATE.iter().find(|(bytes, _)| Some(*bytes) == pair) {
            plain(bytes.get(rest..at)?, out)?;
            push((*point).into(), out)?;
            rest = at + length;
        }
        at += length;
    }
    plain(bytes.get(rest..)?, out)
}

/// Appends a character; None for half of a pair and for what is beyond Unicode.
pub(super) fn push(point: u32, out: &mut Vec<u8>) -> Option<()> {
    let c = char::from_u32(point)?;
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}

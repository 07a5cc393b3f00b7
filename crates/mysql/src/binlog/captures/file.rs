//! A log file, event by event.

use crate::binlog::Flavour;
use crate::binlog::event::{self, Checksums, Event, Header, kind};
use crate::binlog::wire::Malformed;

const MAGIC: &[u8] = b"\xfebin";

/// Calls `each` with every event, those inside payloads too.
pub(super) fn events(
    flavour: Flavour,
    log: &[u8],
    mut each: impl FnMut(&Header, &Event<'_>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    bodies(flavour, log, |header, body| each(header, &event::parse(flavour, header, body)?))
}

/// Calls `each` with the header and body of every event, after checking its checksum.
pub(super) fn bodies(
    flavour: Flavour,
    log: &[u8],
    mut each: impl FnMut(&Header, &[u8]) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let short = Malformed::Short { what: "a log file" };
    let mut rest = log.strip_prefix(MAGIC).ok_or(short.clone())?;
    let mut checksums = Checksums::Crc32;
    while !rest.is_empty() {
        let header = Header::parse(rest)?;
        let size = usize::try_from(header.size).unwrap();
        let (whole, after) = rest.split_at_checked(size).ok_or(short.clone())?;
        rest = after;
        let mut body = whole.get(Header::LENGTH..).ok_or(short.clone())?;
        let is_description = header.kind == kind::FORMAT_DESCRIPTION;
        if is_description || checksums == Checksums::Crc32 {
            let (without, sum) = body.split_last_chunk::<4>().ok_or(short.clone())?;
            if is_description {
                checksums = event::checksums(without)?;
            }
            event::verify_checksum(header, without, u32::from_le_bytes(*sum))?;
            body = without;
        }
        each(&header, body)?;
        if let Event::Payload(payload) = event::parse(flavour, &header, body)? {
            let mut inner = payload.events()?;
            while let Some(next) = inner.next() {
                let (header, body) = next?;
                each(&header, body)?;
            }
        }
    }
    Ok(())
}

//! How an input of a target is laid out: a fixed number of bytes that choose, then events as they stand in a log.

use crate::binlog::Flavour;
use crate::binlog::event::Header;

/// Bytes that choose. At their end they are zeros.
#[derive(Clone, Debug)]
pub(super) struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    /// Splits an input into its choices and the rest.
    pub(super) fn split(data: &'a [u8], choices: usize) -> (Self, &'a [u8]) {
        let (choices, rest) = data.split_at_checked(choices).unwrap_or((data, &[]));
        (Self(choices), rest)
    }

    pub(super) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    pub(super) fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// One of these, of which there is one at least.
    pub(super) fn among<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[usize::from(self.short()) % all.len()]
    }

    pub(super) fn flavour(&mut self) -> Flavour {
        if self.byte() & 1 == 0 { Flavour::MySql } else { Flavour::MariaDb }
    }
}

/// Headers and bodies of events one after the other. Each is as long as its header says, as far as there are bytes; one that
/// says less than its header takes is that long.
pub(super) fn events(mut rest: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    std::iter::from_fn(move || {
        let header = Header::parse(rest).ok()?;
        let body = rest.get(Header::LENGTH..)?;
        let length = usize::try_from(header.size).ok()?.saturating_sub(Header::LENGTH).min(body.len());
        let (body, after) = body.split_at(length);
        rest = after;
        Some((header, body))
    })
}

/// An event as it stands in a log, with the size that it has.
pub(super) fn put_event(header: Header, body: &[u8], out: &mut Vec<u8>) {
    let size = u32::try_from(Header::LENGTH + body.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&Header { size, ..header }.to_bytes());
    out.extend_from_slice(body);
}

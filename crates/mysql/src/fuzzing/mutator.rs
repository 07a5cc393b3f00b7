//! Changes to inputs that stay sequences of events: to the body of one, under the size that it then has; to what is inside a
//! compressed one; and to their order. Blind changes alone would hardly ever get past the sizes and the compression.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::documents::put_packed;
use super::input::{events, put_event};
use super::{framing, rows, transactions};
use crate::binlog::compressed::inflate_event;
use crate::binlog::event::{self, Event, Header, kind};
use crate::binlog::{Flavour, event::kind as kinds};

/// Changes bytes in place: so many are there, so many may be; returns how many there are then.
pub(super) type Blind<'m> = &'m mut dyn FnMut(&mut [u8], usize, usize) -> usize;

/// Changes an input of [`framing`](super::framing()).
pub fn framing_mutated(data: &mut [u8], size: usize, limit: usize, seed: u32, blind: Blind<'_>) -> usize {
    mutated(data, size, limit, framing::CHOICES, seed, blind)
}

/// Changes an input of [`rows`](super::rows()).
pub fn rows_mutated(data: &mut [u8], size: usize, limit: usize, seed: u32, blind: Blind<'_>) -> usize {
    mutated(data, size, limit, rows::CHOICES, seed, blind)
}

/// Changes an input of [`transactions`](super::transactions()).
pub fn transactions_mutated(data: &mut [u8], size: usize, limit: usize, seed: u32, blind: Blind<'_>) -> usize {
    mutated(data, size, limit, transactions::CHOICES, seed, blind)
}

fn mutated(data: &mut [u8], size: usize, limit: usize, choices: usize, seed: u32, blind: Blind<'_>) -> usize {
    let mut random = Random(u64::from(seed) << 1 | 1);
    if size <= choices || random.below(4) == 0 {
        return blind(data, size, limit);
    }
    let (head, rest) = data[..size].split_at(choices);
    let mut out = head.to_vec();
    if random.below(16) == 0 {
        let length = blind(&mut out, choices, choices);
        out.truncate(length);
        out.resize(choices, 0);
    }
    let flavour = if out.first().is_some_and(|byte| byte & 1 == 1) { Flavour::MariaDb } else { Flavour::MySql };
    let mut list = events(rest).map(|(header, body)| (header, body.to_vec())).collect();
    change(flavour, &mut list, &mut random, blind);
    for (header, body) in list {
        if out.len() + Header::LENGTH + body.len() > limit {
            break;
        }
        put_event(header, &body, &mut out);
    }
    if out.len() > limit {
        return blind(data, size, limit);
    }
    data[..out.len()].copy_from_slice(&out);
    out.len()
}

type Events = Vec<(Header, Vec<u8>)>;

fn change(flavour: Flavour, list: &mut Events, random: &mut Random, blind: Blind<'_>) {
    if list.is_empty() {
        list.push((
            Header { timestamp: 1, kind: kind::QUERY, server_id: 1, size: 0, log_pos: 0, flags: 0 },
            Vec::new(),
        ));
    }
    let at = random.below(list.len());
    let other = random.below(list.len());
    match random.below(12) {
        0 => drop(list.remove(at)),
        1 => list.insert(other, list[at].clone()),
        2 => list.swap(at, other),
        3 => {
            let (header, _) = &mut list[at];
            let mut bytes = header.to_bytes();
            blind(&mut bytes, Header::LENGTH, Header::LENGTH);
            *header = Header::parse(&bytes).unwrap_or(*header);
        }
        4 => list[at].0.kind = KINDS[random.below(KINDS.len())],
        5..=7 => inside(flavour, &mut list[at], random, blind),
        _ => blindly(&mut list[at].1, blind),
    }
}

/// Longer ones are as good as shorter ones.
const LONGEST: usize = 1 << 16;

fn blindly(bytes: &mut Vec<u8>, blind: Blind<'_>) {
    bytes.truncate(LONGEST);
    let length = bytes.len();
    bytes.resize(length + 32, 0);
    let capacity = bytes.len();
    let length = blind(bytes, length, capacity);
    bytes.truncate(length);
}

/// Changes what is compressed in the event, or else the event.
fn inside(flavour: Flavour, (header, body): &mut (Header, Vec<u8>), random: &mut Random, blind: Blind<'_>) {
    if flavour == Flavour::MySql
        && let Ok(Event::Payload(payload)) = event::parse(flavour, header, body)
        && let Ok(mut inner) = payload.events()
    {
        let mut list = Events::new();
        while let Some(Ok((header, body))) = inner.next() {
            list.push((header, body.to_vec()));
        }
        change(flavour, &mut list, random, blind);
        let mut plain = Vec::new();
        for (header, body) in list {
            put_event(header, &body, &mut plain);
        }
        plain.truncate(LONGEST);
        *body = payload_of(&plain, random.below(2) == 0);
        return;
    }
    if let Some(at) = compressed_part(flavour, header.kind, body)
        && let Ok(mut plain) = inflate_event(&body[at..])
    {
        blindly(&mut plain, blind);
        body.truncate(at);
        body.extend_from_slice(&deflated(&plain));
        return;
    }
    blindly(body, blind);
}

/// The body of a payload event of these events.
pub(super) fn payload_of(plain: &[u8], compress: bool) -> Vec<u8> {
    let compressed = if compress { zstd::encode_all(plain, 1).unwrap_or_default() } else { plain.to_vec() };
    let mut body = Vec::new();
    for (field, value) in [(1, compressed.len()), (2, if compress { 0 } else { 255 }), (3, plain.len())] {
        let mut bytes = Vec::new();
        put_packed(value, &mut bytes);
        body.push(field);
        put_packed(bytes.len(), &mut body);
        body.extend_from_slice(&bytes);
    }
    body.push(0);
    body.extend_from_slice(&compressed);
    body
}

/// As MariaDB compresses the end of an event.
fn deflated(plain: &[u8]) -> Vec<u8> {
    let length = u32::try_from(plain.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut out = [&[0x84], length.as_slice()].concat();
    let mut encoder = ZlibEncoder::new(&mut out, Compression::fast());
    // A vector takes all bytes.
    let written = encoder.write_all(plain).and_then(|()| encoder.finish().map(|_| ()));
    debug_assert!(written.is_ok(), "{written:?}");
    out
}

/// Where the compressed part of an event begins: where the whole of the rest can be inflated.
fn compressed_part(flavour: Flavour, kind: u8, body: &[u8]) -> Option<usize> {
    let compressed = matches!(kind, kinds::MARIA_QUERY_COMPRESSED..=kinds::MARIA_DELETE_ROWS_COMPRESSED);
    if flavour != Flavour::MariaDb || !compressed {
        return None;
    }
    let begins = |at: &usize| body.get(*at).is_some_and(|byte| byte & 0xf0 == 0x80);
    (0..body.len().min(256)).filter(begins).find(|at| inflate_event(&body[*at..]).is_ok())
}

const KINDS: &[u8] = &[
    kind::QUERY,
    kind::STOP,
    kind::ROTATE,
    kind::INTVAR,
    kind::BEGIN_LOAD_QUERY,
    kind::FORMAT_DESCRIPTION,
    kind::XID,
    kind::TABLE_MAP,
    kind::WRITE_ROWS_V1,
    kind::UPDATE_ROWS_V1,
    kind::DELETE_ROWS_V1,
    kind::HEARTBEAT,
    kind::WRITE_ROWS,
    kind::UPDATE_ROWS,
    kind::DELETE_ROWS,
    kind::GTID,
    kind::ANONYMOUS_GTID,
    kind::PREVIOUS_GTIDS,
    kind::XA_PREPARE,
    kind::PARTIAL_UPDATE_ROWS,
    kind::TRANSACTION_PAYLOAD,
    kind::HEARTBEAT_V2,
    kind::GTID_TAGGED,
    kind::MARIA_GTID,
    kind::MARIA_GTID_LIST,
    kind::MARIA_QUERY_COMPRESSED,
    kind::MARIA_WRITE_ROWS_COMPRESSED_V1,
    kind::MARIA_UPDATE_ROWS_COMPRESSED_V1,
    kind::MARIA_DELETE_ROWS_COMPRESSED,
];

/// xorshift64: an input and a seed always give the same change.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit.max(1)).unwrap_or(1)).unwrap_or(0)
    }
}

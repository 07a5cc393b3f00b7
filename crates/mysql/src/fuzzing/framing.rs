//! Bytes as a sequence of events.

use calve_core::{BinlogOffset, GtidSet};

use super::input::{Choices, events};
use crate::binlog::Flavour;
use crate::binlog::event::{self, Event, Header, kind};
use crate::binlog::gtid::previous_gtids;
use crate::ddl::statement_kind;

/// Bytes of an input before its events: the flavour.
pub(super) const CHOICES: usize = 1;

/// Takes events apart, those inside payloads too.
pub fn framing(data: &[u8]) {
    let (mut choices, rest) = Choices::split(data, CHOICES);
    let flavour = choices.flavour();
    if let Ok(header) = Header::parse(rest) {
        assert!(rest.starts_with(&header.to_bytes()), "a header reads back as written");
    }
    for (header, body) in events(rest) {
        drop(event::verify_checksum(header, body, header.log_pos));
        if header.kind == kind::PREVIOUS_GTIDS
            && let Ok(set) = previous_gtids(body)
        {
            reads_back(&set);
        }
        if let Ok(event) = event::parse(flavour, &header, body) {
            look_at(flavour, &event);
        }
    }
}

fn look_at(flavour: Flavour, event: &Event<'_>) {
    match event {
        Event::Payload(payload) => {
            let Ok(mut inner) = payload.events() else { return };
            while let Some(Ok((header, body))) = inner.next() {
                assert_ne!(header.kind, kind::TRANSACTION_PAYLOAD, "a payload inside a payload");
                if let Ok(event) = event::parse(flavour, &header, body) {
                    look_at(flavour, &event);
                }
            }
            assert!(inner.next().is_none(), "nothing comes after the end");
        }
        Event::TableMap(map) => {
            let count = map.columns.len();
            let optional = &map.optional;
            for (what, length) in [
                ("signs", optional.unsigned.len()),
                ("collations", optional.collation.len()),
                ("names", optional.names.len()),
                ("labels", optional.labels.len()),
            ] {
                assert!(length == 0 || length == count, "{length} {what} of {count} columns");
            }
            let key = optional.primary_key.iter().flatten();
            assert!(key.into_iter().all(|(place, _)| *place < count), "the key is of columns that are there");
        }
        Event::Gtid(gtid) => {
            if let Some((source, number)) = &gtid.id {
                let mut set = GtidSet::default();
                set.insert(source, *number);
                assert!(set.contains(source, *number), "{source}:{number}");
                reads_back(&set);
            }
        }
        Event::Rotate { file, position } | Event::Heartbeat { file, position } => {
            let offset = BinlogOffset::new(file, *position);
            assert_eq!(offset.to_string().parse().as_ref(), Ok(&offset));
        }
        Event::Query(query) => drop(statement_kind(&query.sql)),
        _ => {}
    }
}

fn reads_back(set: &GtidSet) {
    assert_eq!(set.to_string().parse().as_ref(), Ok(set));
}

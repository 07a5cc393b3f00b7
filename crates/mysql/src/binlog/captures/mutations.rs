//! No bytes make the decoder panic: events of the captures with bits flipped, cut short, and mixed with one another.
//!
//! What is decoded of them is of no interest, only that it ends, and with rows or an error.

use std::collections::HashMap;
use std::sync::Arc;

use calve_core::TableIndex;

use super::captures;
use super::file;
use super::model::Model;
use super::shown::Table;
use crate::binlog::Flavour;
use crate::binlog::event::{self, Event, Header, kind};
use crate::binlog::plan::RowPlan;
use crate::binlog::wire::Malformed;

const CASES: usize = 100_000;
/// Larger events hold nothing that smaller ones do not.
const SIZE_MAX: usize = 4096;

/// An event as it stood in its file, and how rows of its table are decoded, if it has rows.
struct Sample {
    flavour: Flavour,
    header: Header,
    body: Vec<u8>,
    plan: Option<Arc<RowPlan>>,
    table: Table,
}

/// xorshift64: the same numbers on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }
}

fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for mut capture in captures() {
        // Rows are not compared, and would be copied with every sample.
        capture.tables.iter_mut().for_each(|table| table.rows.clear());
        let mut plans: HashMap<u64, (Arc<RowPlan>, Table)> = HashMap::new();
        let mut plan_of = |event: &Event<'_>| match event {
            Event::TableMap(map) => {
                let table = capture.tables.iter().find(|table| table.schema.table.name == map.table)?.clone();
                let plan = Arc::new(RowPlan::new(capture.flavour, map, &table.schema).ok()?);
                plans.insert(map.id, (plan, table.clone()));
                Some((None, table))
            }
            Event::Rows(rows) => plans.get(&rows.table_id).map(|(plan, table)| (Some(Arc::clone(plan)), table.clone())),
            _ => None,
        };
        file::bodies(capture.flavour, &capture.log, |header, body| {
            let event = event::parse(capture.flavour, header, body)?;
            let planned = plan_of(&event);
            if body.len() <= SIZE_MAX {
                let fallback = || capture.tables.first().cloned().unwrap();
                let (plan, table) = planned.unwrap_or_else(|| (None, fallback()));
                samples.push(Sample { flavour: capture.flavour, header: *header, body: body.to_vec(), plan, table });
            }
            Ok(())
        })
        .unwrap();
    }
    samples
}

fn mutate(random: &mut Random, samples: &[Sample], body: &mut Vec<u8>) {
    match random.below(8) {
        0 => body.truncate(random.below(body.len() + 1)),
        1 => {
            // The head of this one, the tail of another.
            let other = &samples[random.below(samples.len())].body;
            body.truncate(random.below(body.len() + 1));
            body.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
        2 => {
            let at = random.below(body.len() + 1);
            let count = random.below(8);
            let bytes: Vec<u8> = (0..count).map(|_| random.next().to_le_bytes()[0]).collect();
            body.splice(at..at, bytes);
        }
        _ => {
            for _ in 0..=random.below(4) {
                let length = body.len();
                let Some(byte) = body.get_mut(random.below(length)) else { return };
                *byte = match random.below(4) {
                    0 => 0xff,
                    1 => 0,
                    2 => *byte ^ 1 << random.below(8),
                    _ => random.next().to_le_bytes()[0],
                };
            }
        }
    }
}

/// Goes through everything that would be done with the event.
fn decode(sample: &Sample, header: &Header, body: &[u8]) -> Result<(), Malformed> {
    match event::parse(sample.flavour, header, body)? {
        Event::TableMap(map) => drop(RowPlan::new(sample.flavour, &map, &sample.table.schema)),
        Event::Rows(rows) => {
            if let Some(plan) = &sample.plan {
                let mut model = Model::new(sample.flavour, std::slice::from_ref(&sample.table));
                drop(plan.decode(&rows, TableIndex(0), &mut model));
                model.unwanted = true;
                drop(plan.decode(&rows, TableIndex(0), &mut model));
            }
        }
        Event::Payload(payload) => {
            let mut events = payload.events()?;
            while let Some(inner) = events.next() {
                let (header, body) = inner?;
                drop(event::parse(sample.flavour, &header, body)?);
            }
        }
        _ => {}
    }
    Ok(())
}

#[test]
fn no_bytes_make_the_decoder_panic() {
    let samples = samples();
    assert!(samples.len() > 500, "{} events", samples.len());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..CASES {
        let sample = &samples[random.below(samples.len())];
        let mut body = sample.body.clone();
        let mut header = sample.header;
        mutate(&mut random, &samples, &mut body);
        if random.below(50) == 0 {
            header.kind = random.next().to_le_bytes()[0];
        }
        match decode(sample, &header, &body) {
            Ok(()) => accepted += 1,
            Err(_) => refused += 1,
        }
    }
    // Both ends of the decoder were reached.
    assert!(accepted > CASES / 10 && refused > CASES / 10, "{accepted} accepted, {refused} refused");
}

/// Rows and table maps are cut at every byte.
#[test]
fn events_cut_short_are_refused_or_end_in_whole_rows() {
    for sample in samples().iter().filter(|sample| sample.body.len() < 600) {
        for length in 0..sample.body.len() {
            let read = decode(sample, &sample.header, &sample.body[..length]);
            // These kinds know their end, so that no shorter event is one.
            if matches!(sample.header.kind, kind::XID | kind::XA_PREPARE | kind::MARIA_GTID_LIST | kind::PREVIOUS_GTIDS)
            {
                assert!(read.is_err(), "kind {} cut to {length}", sample.header.kind);
            }
        }
    }
}

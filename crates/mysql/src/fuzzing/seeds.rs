//! Inputs to begin with: events and transactions of the captures, their documents and statements, and texts of positions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::captured::{Capture, captures};
use super::documents::{encode, put_packed};
use super::input::put_event;
use super::mutator::payload_of;
use super::{framing, rows, transactions};
use crate::binlog::Flavour;
use crate::binlog::event::{self, Event, Header, kind};

/// An input of a target.
#[derive(Clone, Debug)]
pub struct Seed {
    /// The target's name.
    pub target: &'static str,
    /// The input.
    pub bytes: Vec<u8>,
}

/// Longer ones slow the fuzzer down and hold nothing that shorter ones do not.
const LONGEST: usize = 16 << 10;

/// All of them.
pub fn seeds() -> Vec<Seed> {
    let mut seeds = Seeds::default();
    let mut first_table = 0;
    for (index, capture) in captures().iter().enumerate() {
        seeds.capture(index, first_table, capture);
        first_table += capture.tables.len();
    }
    seeds.positions();
    seeds.all.retain(|seed| seed.bytes.len() <= LONGEST);
    seeds.all
}

#[derive(Default)]
struct Seeds {
    all: Vec<Seed>,
}

impl Seeds {
    fn add(&mut self, target: &'static str, parts: &[&[u8]]) {
        self.all.push(Seed { target, bytes: parts.concat() });
    }

    fn capture(&mut self, index: usize, first_table: usize, capture: &Capture) {
        let flavour = u8::from(capture.flavour == Flavour::MariaDb);
        // Events as they stand in the file; what is inside a payload comes after it, without a place.
        let list = capture.events();
        let is_inner = |header: &Header| header.log_pos == 0 && header.kind != kind::ROTATE;
        let mut maps: BTreeMap<u64, (usize, Vec<u8>)> = BTreeMap::new();
        let mut transaction = Vec::new();
        let mut inner = Vec::new();
        for (header, body) in &list {
            let mut bytes = Vec::new();
            put_event(*header, body, &mut bytes);
            self.add("framing", &[&[flavour], &bytes]);
            match event::parse(capture.flavour, header, body) {
                Ok(Event::TableMap(map)) => {
                    let table = capture.tables.iter().position(|table| table.schema.table.name == map.table);
                    maps.insert(map.id, (first_table + table.unwrap_or(0), bytes.clone()));
                }
                Ok(Event::Rows(rows)) => {
                    if let Some((table, map)) = maps.get(&rows.table_id) {
                        self.rows(flavour, *table, &[map, &bytes]);
                    }
                }
                Ok(Event::Query(query)) => {
                    let charset = query.charset_client.unwrap_or(0).to_le_bytes();
                    let mode = u8::try_from(query.sql_mode.unwrap_or(0) & 4).unwrap_or(0);
                    self.add("statements", &[&[flavour, 0], &charset, &[mode, 0, 0, 0], &query.sql]);
                }
                _ => {}
            }
            if is_inner(header) {
                inner.extend_from_slice(&bytes);
                continue;
            }
            if !inner.is_empty() {
                self.payload(&inner);
                inner.clear();
            }
            if matches!(header.kind, kind::GTID | kind::GTID_TAGGED | kind::ANONYMOUS_GTID | kind::MARIA_GTID) {
                self.transaction(flavour, index, &transaction);
                transaction.clear();
            }
            transaction.extend_from_slice(&bytes);
        }
        self.transaction(flavour, index, &transaction);
        let mut whole = Vec::new();
        for (header, body) in list.iter().filter(|(header, _)| !is_inner(header)) {
            put_event(*header, body, &mut whole);
        }
        self.add("framing", &[&[flavour], &whole]);
        self.transaction(flavour, index, &whole);
        self.documents(capture);
    }

    /// Against the schema of the capture, and against one that fits, with text and with bytes.
    fn rows(&mut self, flavour: u8, table: usize, events: &[&[u8]]) {
        let events = events.concat();
        let [low, high, ..] = table.to_le_bytes();
        for fit in [0, 1] {
            let mut choices = vec![flavour, fit];
            if fit == 0 {
                choices.extend_from_slice(&[low, high]);
            }
            choices.resize(rows::CHOICES, 0);
            self.add("rows", &[&choices, &events]);
        }
        self.add("rows", &[&[flavour, 1], &[7; rows::CHOICES - 2], &events]);
    }

    /// The events of a compressed transaction, in a payload that is not compressed.
    fn payload(&mut self, inner: &[u8]) {
        let mut bytes = Vec::new();
        let header =
            Header { timestamp: 1, kind: kind::TRANSACTION_PAYLOAD, server_id: 1, size: 0, log_pos: 4, flags: 0 };
        put_event(header, &payload_of(inner, false), &mut bytes);
        self.add("framing", &[&[0], &bytes]);
    }

    fn transaction(&mut self, flavour: u8, capture: usize, events: &[u8]) {
        let capture = capture.to_le_bytes();
        for naming in [flavour, 2] {
            let choices = [flavour, naming, capture[0], capture[1], 0, 12];
            debug_assert_eq!(choices.len(), transactions::CHOICES);
            self.add("transactions", &[&choices, events]);
        }
    }

    fn documents(&mut self, capture: &Capture) {
        for table in &capture.tables {
            let columns = table.schema.columns.iter().enumerate();
            for (place, _) in columns.filter(|(_, column)| column.native.name == "json") {
                let cells = table.rows.iter().filter_map(|row| row.get(place).cloned().flatten());
                for text in cells.filter(|text| text.len() < 1000) {
                    self.add("documents", &[&[1, 0, 0], text.as_bytes()]);
                    if let Some(document) = serde_json::from_str(&text).ok().as_ref().and_then(encode) {
                        self.document(&document);
                    }
                }
            }
        }
    }

    fn document(&mut self, document: &[u8]) {
        let length = u16::try_from(document.len()).unwrap_or(0).to_le_bytes();
        let head = [&[0], length.as_slice(), document].concat();
        self.add("documents", &[&head, document]);
        let value = encode(&Value::Bool(true)).unwrap_or_default();
        for (operation, path) in
            [(0_u8, "$"), (0, "$.a"), (0, "$[0]"), (1, "$.b"), (1, "$.\"a b\"[last]"), (1, "$[last-1]"), (2, "$.a")]
        {
            let mut change = vec![operation];
            put_packed(path.len(), &mut change);
            change.extend_from_slice(path.as_bytes());
            if operation < 2 {
                put_packed(value.len(), &mut change);
                change.extend_from_slice(&value);
            }
            self.add("documents", &[&head, &change]);
        }
    }

    fn positions(&mut self) {
        const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";
        for text in [
            "A:1-5:7:9-12\nA:2:6-10\nB:1",
            "A:1-3:tag:4-5:9,\nB:1-9223372036854775806",
            "mysql:A:1-5:7\nmysql:A:1-3:9\nmysql:A:1-9",
            "mysql:A:1-5;open=A:3;last=A:5/1700000000000001@binlog.000002:157\nmysql:A:1-6;last=A:6/2@b.000001:4",
            "mariadb:0-1-5,1-1-2\nmariadb:0-2-7\nmariadb:0-1-5;resume=0-1-2@mysqld-bin.000002:157",
            "mariadb:0-1-100;resume=0-0-0",
            "binlog:b.000009:9;created=1\nbinlog:b.000010:4;created=2;resume=b.000008:4",
            "postgres:16/B374D848\npostgres:0/1",
        ] {
            self.add("positions", &[&[0], text.replace('A', A).replace('B', B).as_bytes()]);
        }
        self.add("positions", &[&[1], &[0, 1, 0, 3, 2, 9, 8, 4, 0, 11, 3, 12, 5, 0, 0, 14, 0, 0, 2, 5, 0, 18, 1, 1]]);
        debug_assert_eq!(framing::CHOICES, 1);
    }
}

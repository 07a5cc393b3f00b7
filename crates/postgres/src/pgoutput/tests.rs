//! The decoder over messages that a server (Postgres 17) sent for one transaction on two tables, as they were and damaged:
//!
//! ```sql
//! CREATE TYPE mood AS ENUM ('sad', 'ok');
//! CREATE TABLE t (id int PRIMARY KEY, name varchar(10), big text STORAGE EXTERNAL, price numeric(10,2), at timestamptz, m mood);
//! CREATE TABLE f (a int NOT NULL, b text NOT NULL, big text STORAGE EXTERNAL, PRIMARY KEY (b, a)); -- REPLICA IDENTITY FULL
//! BEGIN;
//! INSERT INTO t VALUES (1, 'one', repeat('x', 3000), 1.50, '2026-01-02 03:04:05.678901+00', 'ok'), (2, NULL, ..);
//! UPDATE t SET name = 'uno' WHERE id = 1; UPDATE t SET id = 3 WHERE id = 2; DELETE FROM t WHERE id = 3;
//! INSERT INTO f VALUES (1, 'k', repeat('y', 3000)); UPDATE f SET a = 2; DELETE FROM f;
//! TRUNCATE t, f; SELECT pg_logical_emit_message(true, 'prefix', 'content');
//! COMMIT;
//! ```

use std::sync::Arc;

use calve_core::{
    ChangeSink, Column, ColumnType, ErrorKind, Lsn, NativeType, Position, Result, RowBuffer, RowOp, SourceTable,
    StopReason, TableIndex, TableName, TableSchema, TransactionPoint, Unchanged, ValueRules, Values,
};

use super::{Decoder, LookedUp};
use calve_core::cell_text;
use calve_spool::Spools;

mod in_progress;

const TEXT: &str = include_str!("captures/text.hex");
const BINARY: &str = include_str!("captures/binary.hex");
/// The UPDATE that leaves out a large value.
const UNCHANGED: usize = 5;

/// A message a line, in hexadecimal; `(78*3000)` stands for 3000 times 78.
fn messages(capture: &str) -> Vec<Vec<u8>> {
    let byte = |hex: &str| u8::from_str_radix(hex, 16).unwrap();
    let line = |line: &str| {
        let mut bytes = Vec::new();
        let mut rest = line;
        while !rest.is_empty() {
            if let Some(run) = rest.strip_prefix('(') {
                let (run, after) = run.split_once(')').unwrap();
                let (value, count) = run.split_once('*').unwrap();
                bytes.extend(vec![byte(value); count.parse().unwrap()]);
                rest = after;
            } else {
                bytes.push(byte(&rest[..2]));
                rest = &rest[2..];
            }
        }
        // Such a binary form (here an enum's) is not asked for where a table has one; the server sends text then.
        let enum_cell = bytes.len().saturating_sub(7);
        if bytes.ends_with(b"b\0\0\0\x02ok") {
            bytes[enum_cell] = b't';
        }
        bytes
    };
    capture.lines().map(line).collect()
}

fn table(name: &str, native_id: u32, columns: &[(&str, ColumnType, u32, i32, bool)], key: &[usize]) -> SourceTable {
    let columns = columns.iter().map(|(name, ty, id, modifier, nullable)| Column {
        id: 0,
        name: (*name).into(),
        ty: ty.clone(),
        nullable: *nullable,
        native: NativeType::new(*id, *modifier, "?"),
        usage: calve_core::ColumnUse::Values,
    });
    let name = TableName::new("public", name);
    let schema = TableSchema::new(name.clone(), native_id, columns.collect(), key.to_vec());
    SourceTable { name, schema: Arc::new(schema) }
}

fn tables() -> Vec<SourceTable> {
    let decimal = ColumnType::Decimal { precision: 10, scale: 2 };
    let t = [
        ("id", ColumnType::Int, 23, -1, false),
        ("name", ColumnType::String, 1043, 14, true),
        ("big", ColumnType::String, 25, -1, true),
        ("price", decimal, 1700, (10 << 16 | 2) + 4, true),
        ("at", ColumnType::TimestampTz, 1184, -1, true),
        ("m", ColumnType::String, 16683, -1, true),
    ];
    let f = [
        ("a", ColumnType::Int, 23, -1, false),
        ("b", ColumnType::String, 25, -1, false),
        ("big", ColumnType::String, 25, -1, true),
    ];
    vec![table("t", 16687, &t, &[0]), table("f", 16694, &f, &[1, 0])]
}

/// Writes down what it is told.
#[derive(Default)]
struct Sink {
    tables: Vec<SourceTable>,
    buffers: Vec<RowBuffer>,
    stops: Vec<(usize, StopReason)>,
    begun: Vec<u64>,
    committed: Vec<(u64, i64)>,
}

impl Sink {
    fn new(tables: &[SourceTable]) -> Self {
        let buffers = tables.iter().map(|table| RowBuffer::new(Arc::clone(&table.schema))).collect();
        Self { tables: tables.to_vec(), buffers, ..Self::default() }
    }

    /// Every entry of a table: what was done, the old key, the new image. Of what was left alone it says `(kept)`.
    fn changes(&mut self, table: usize) -> Vec<(RowOp, String, String)> {
        let empty = RowBuffer::new(Arc::clone(&self.tables[table].schema));
        let buffer = std::mem::replace(&mut self.buffers[table], empty);
        let unchanged = buffer.unchanged().to_vec();
        let (ops, images, keys) = buffer.into_parts();
        let row = |columns: &[calve_core::ColumnBuffer], row: usize, unchanged: &[Unchanged]| {
            let kept = |column| unchanged.contains(&Unchanged { image: row, column });
            let shown =
                columns.iter().enumerate().map(|(at, column)| match (cell_text(column, row), column.values()) {
                    (None, _) if kept(at) => "(kept)".to_owned(),
                    (None, _) => "NULL".to_owned(),
                    (Some(text), Values::Bytes { .. }) if text.len() > 20 => text.len().to_string(),
                    (Some(text), _) => text,
                });
            shown.collect::<Vec<_>>().join("|")
        };
        let (mut image, mut key) = (0, 0);
        let mut changes = Vec::new();
        for op in ops {
            let old = if op.has_old_key() { row(&keys, key, &[]) } else { String::new() };
            let new = if op.has_image() { row(&images, image, &unchanged) } else { String::new() };
            key += usize::from(op.has_old_key());
            image += usize::from(op.has_image());
            changes.push((op, old, new));
        }
        changes
    }
}

impl ChangeSink for Sink {
    fn begin(&mut self, transaction: &TransactionPoint) {
        let TransactionPoint::Postgres { commit_lsn } = transaction else {
            panic!("{transaction:?} is none of Postgres")
        };
        self.begun.push(commit_lsn.0);
    }

    fn wants(&self, table: TableIndex) -> bool {
        self.stops.iter().all(|(stopped, _)| *stopped != table.0)
    }

    fn rows(&mut self, table: TableIndex) -> Option<&mut RowBuffer> {
        if self.stops.iter().any(|(stopped, _)| *stopped == table.0) {
            return None;
        }
        self.buffers.get_mut(table.0)
    }

    fn stop(&mut self, table: TableIndex, reason: StopReason) {
        assert!(self.rows(table).is_some(), "a table that is not wanted was stopped");
        self.stops.push((table.0, reason));
    }

    fn commit(&mut self, end: Position, committed_at: i64) {
        let Position::Postgres(Lsn(end)) = end else { panic!("{end} is none of Postgres") };
        self.committed.push((end, committed_at));
    }

    fn abort(&mut self) {}

    fn idle(&mut self, _: Position) {}

    fn is_full(&self) -> bool {
        false
    }
}

/// Decodes messages, the primary key of `f` known.
fn decode(messages: &[Vec<u8>], tables: &[SourceTable], sink: &mut Sink) -> Result<()> {
    let mut decoder = Decoder::new(tables, false, Spools::new(std::env::temp_dir()), ValueRules::default());
    for message in messages {
        look_up(&mut decoder, message);
        if let Some(mut replay) = decoder.message(message, sink)? {
            while let Some(message) = replay.peek()? {
                look_up(&mut decoder, message);
                decoder.replayed(message, sink)?;
                replay.advance();
            }
            decoder.end_replay(&replay, sink);
        }
    }
    Ok(())
}

fn look_up(decoder: &mut Decoder, message: &[u8]) {
    if let Some((oid, true)) = decoder.followed(message) {
        let primary_key = Some(vec!["a".into(), "b".into()]);
        decoder.look_up(oid, LookedUp { primary_key, attributes: Arc::default() });
    }
}

#[test]
fn text_and_binary_cells_give_the_same_rows() {
    for capture in [TEXT, BINARY] {
        let tables = tables();
        let mut sink = Sink::new(&tables);
        let messages = messages(capture);
        decode(&messages, &tables, &mut sink).unwrap();
        assert_eq!(sink.begun, [0xAFB_8BE8]);
        assert_eq!(sink.committed, [(0xAFB_8E88, sink.committed[0].1)]);
        assert_eq!(sink.stops, []);
        let changes: Vec<_> = sink.changes(0);
        let changes: Vec<_> = changes.iter().map(|(op, old, new)| (*op, old.as_str(), new.as_str())).collect();
        assert_eq!(
            changes,
            [
                (RowOp::Insert, "", "1|one|3000|1.50|2026-01-02 03:04:05.678901+00|ok"),
                (RowOp::Insert, "", "2|NULL|NULL|NULL|NULL|NULL"),
                (RowOp::Update, "", "1|uno|(kept)|1.50|2026-01-02 03:04:05.678901+00|ok"),
                (RowOp::UpdateFrom, "2", "3|NULL|NULL|NULL|NULL|NULL"),
                (RowOp::Delete, "3", ""),
                (RowOp::Truncate, "", ""),
            ]
        );
        let changes: Vec<_> = sink.changes(1);
        let changes: Vec<_> = changes.iter().map(|(op, old, new)| (*op, old.as_str(), new.as_str())).collect();
        assert_eq!(
            changes,
            [
                (RowOp::Insert, "", "1|k|3000"),
                // The key in its own order, and the value that was left out taken from the old row.
                (RowOp::UpdateFrom, "k|1", "2|k|3000"),
                (RowOp::Delete, "k|2", ""),
                (RowOp::Truncate, "", ""),
            ]
        );
    }
}

/// The first cell of the update, which is the key's, in the place of `1`.
fn without_its_key(kind: u8) -> Vec<Vec<u8>> {
    let mut messages = messages(TEXT);
    let message = &mut messages[UNCHANGED];
    assert_eq!(message[8..14], *b"t\0\0\0\x011");
    message.splice(8..14, [kind]);
    messages
}

#[test]
fn a_key_that_was_left_out_stops_its_table_only() {
    let tables = tables();
    let mut sink = Sink::new(&tables);
    decode(&without_its_key(b'u'), &tables, &mut sink).unwrap();
    let [(0, reason)] = &sink.stops[..] else { panic!("{:?}", sink.stops) };
    assert_eq!(reason.state, "unchanged TOAST");
    assert!(reason.detail.contains("id = ?") && reason.detail.contains("column id"), "{}", reason.detail);
    assert!(reason.remedy.contains(r#"ALTER TABLE "public"."t" REPLICA IDENTITY FULL"#), "{}", reason.remedy);
    assert_eq!((sink.changes(0).len(), sink.changes(1).len()), (2, 4));
}

#[test]
fn a_value_left_out_of_a_new_row_stops_its_table() {
    let tables = tables();
    let mut sink = Sink::new(&tables);
    let mut messages = messages(TEXT);
    // The same row, as one that was not there before.
    messages[UNCHANGED][0] = b'I';
    decode(&messages, &tables, &mut sink).unwrap();
    let [(0, reason)] = &sink.stops[..] else { panic!("{:?}", sink.stops) };
    assert!(reason.detail.contains("id = 1") && reason.detail.contains("column big"), "{}", reason.detail);
}

#[test]
fn tables_that_are_not_followed_are_passed_over() {
    let tables = tables();
    let mut sink = Sink::new(&tables[1..]);
    decode(&messages(TEXT), &tables[1..], &mut sink).unwrap();
    assert_eq!((sink.changes(0).len(), sink.stops.len()), (4, 0));
}

#[test]
fn a_shape_that_differs_stops_the_table_at_its_first_change() {
    type Change = fn(&mut TableSchema);
    let cases: [(Change, &str); 8] = [
        (|t| t.native_id += 1, "dropped and created again"),
        (|t| t.table.name = "u".into(), "renamed to public.t"),
        (|t| drop(t.columns.remove(1)), "column name was added"),
        (|t| t.columns[1].name = "nom".into(), "column nom was renamed to, or dropped and replaced by, name"),
        (|t| t.columns.swap(1, 2), "changed places"),
        (|t| t.columns[1].native.modifier = 15, "type of column name changed"),
        (|t| t.columns[4].native.id = 1114, "type of column at changed"),
        (|t| t.key = vec![1], "identify its rows changed from (name) to (id)"),
    ];
    for (change, expected) in cases {
        let mut tables = tables();
        change(Arc::make_mut(&mut tables[0].schema));
        tables[0].name = tables[0].schema.table.clone();
        let mut sink = Sink::new(&tables);
        decode(&messages(TEXT), &tables, &mut sink).unwrap();
        assert_eq!(sink.stops.len(), 1, "{expected}");
        let (stopped, reason) = &sink.stops[0];
        assert_eq!((*stopped, reason.state.as_str()), (0, "schema changed"));
        assert!(reason.detail.contains(expected), "{}", reason.detail);
        assert!(sink.changes(0).is_empty());
    }
}

#[test]
fn a_primary_key_that_changed_under_full_identity_stops_the_table() {
    let tables = tables();
    let mut sink = Sink::new(&tables);
    let mut decoder = Decoder::new(&tables, false, Spools::new(std::env::temp_dir()), ValueRules::default());
    for message in messages(TEXT) {
        if let Some((oid, true)) = decoder.followed(&message) {
            let primary_key = Some(vec!["a".into()]);
            decoder.look_up(oid, LookedUp { primary_key, attributes: Arc::default() });
        }
        decoder.message(&message, &mut sink).unwrap();
    }
    assert_eq!(sink.stops.last().map(|(table, reason)| (*table, reason.state.as_str())), Some((1, "schema changed")));
}

#[test]
fn messages_out_of_turn_are_errors() {
    let all = messages(TEXT);
    let (begin, row, commit) = (&all[0], &all[3], &all[all.len() - 1]);
    for order in [vec![begin, begin], vec![commit], vec![&all[2], row], vec![begin, row], vec![begin, commit, commit]] {
        let tables = tables();
        let order: Vec<Vec<u8>> = order.into_iter().cloned().collect();
        let error = decode(&order, &tables, &mut Sink::new(&tables)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
}

#[test]
fn messages_cut_short_or_too_long_are_errors() {
    for capture in [TEXT, BINARY] {
        let messages = messages(capture);
        let tables = tables();
        for at in 0..messages.len() {
            let whole = messages[at].clone();
            // Long rows are cut here and there, short messages everywhere.
            for length in
                (0..whole.len()).filter(|length| whole.len() < 200 || length % 97 == 0).chain([whole.len() + 1])
            {
                let mut damaged = messages[..=at].to_vec();
                damaged[at].resize(length, 0);
                let error = decode(&damaged, &tables, &mut Sink::new(&tables)).map(|()| "accepted");
                // The old row of a delete or update is read as far as its key only, and nothing but its key matters.
                let tolerated = matches!(whole[0], b'D') && length > whole.len();
                assert!(error.is_err() || tolerated, "message {at} of {} bytes, cut to {length}", whole.len());
            }
        }
    }
}

#[test]
fn damaged_messages_never_panic() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let tables = tables();
    for capture in [TEXT, BINARY] {
        let messages = messages(capture);
        let (mut accepted, mut refused) = (0, 0);
        for _ in 0..4_000 {
            let mut damaged = messages.clone();
            let message = random(damaged.len());
            for _ in 0..=random(3) {
                // Most of a long row is one value: its head is damaged as often as the rest.
                let length = damaged[message].len();
                let within = if random(2) == 0 { length.min(80) } else { length };
                let place = random(within);
                damaged[message][place] = u8::try_from(random(256)).unwrap();
            }
            match decode(&damaged, &tables, &mut Sink::new(&tables)) {
                Ok(()) => accepted += 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    refused += 1;
                }
            }
        }
        assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused: the damage is one-sided");
    }
}

use std::sync::Arc;

use arrow_array::ArrayRef;
use calve_core::{
    ChangeSink, Column, ColumnBuffer, ColumnType, ErrorKind, Lsn, NativeType, Position, RowBuffer, RowOp, SchemaChange,
    StopReason, TableIndex, TableName, TableSchema, TransactionPoint, ValueRules,
};

use super::changes::Changes;
use super::compare::{Detail, Difference, Sums};
use super::key_text;
use super::rows::Rows;
use super::schema_difference;
use super::sides::Sides;

fn column(name: &str, ty: ColumnType) -> Column {
    Column {
        id: 0,
        name: name.into(),
        ty,
        nullable: true,
        native: NativeType::new(23, -1, ""),
        usage: calve_core::ColumnUse::Values,
    }
}

fn schema(columns: Vec<Column>, key: &[usize]) -> Arc<TableSchema> {
    Arc::new(TableSchema::new(TableName::new("public", "t"), 1, columns, key.to_vec()))
}

fn arrays(columns: Vec<ColumnBuffer>) -> Vec<ArrayRef> {
    columns.into_iter().map(ColumnBuffer::into_array).collect()
}

fn buffer(ty: ColumnType, push: impl FnOnce(&mut ColumnBuffer)) -> ColumnBuffer {
    let mut buffer = ColumnBuffer::new(ty);
    push(&mut buffer);
    buffer
}

#[test]
fn a_digest_tells_every_value_apart_but_the_nans() {
    let schema = schema(vec![column("f", ColumnType::Double)], &[]);
    let odd_nan = f64::from_bits(0x7FF8_0000_0000_0001);
    let column = buffer(ColumnType::Double, |cells| {
        for value in [0.0, -0.0, 1.0, f64::NAN, odd_nan, -f64::NAN, f64::INFINITY] {
            cells.push_f64(value);
        }
        cells.push_null();
    });
    let arrays = arrays(vec![column]);
    let mut rows = Rows::new(&schema, &arrays).unwrap();
    let digests: Vec<_> = (0..rows.len()).map(|row| rows.digest(row)).collect();
    assert_eq!(digests[3], digests[4]);
    assert_eq!(digests[3], digests[5]);
    let mut distinct = digests.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 6, "0.0, -0.0, 1.0, NaN, infinity and NULL are six values");
}

#[test]
fn lists_and_maps_differ_where_any_part_does() {
    let schema = schema(vec![column("a", ColumnType::String.list()), column("m", ColumnType::Map)], &[]);
    let push = |out: &mut ColumnBuffer, text: Option<&str>| {
        let Some(text) = text else {
            out.push_null();
            return Ok(());
        };
        out.push_str(text)
    };
    let lists: [Option<&[Option<&str>]>; 9] = [
        None,
        Some(&[]),
        Some(&[None]),
        Some(&[Some("")]),
        Some(&[None, None]),
        Some(&[Some("a"), Some("b")]),
        Some(&[Some("ab")]),
        Some(&[Some("b"), Some("a")]),
        Some(&[]),
    ];
    let maps: [&[(&str, Option<&str>)]; 9] = [&[], &[], &[], &[], &[], &[], &[], &[], &[("a", None)]];
    let list = buffer(ColumnType::String.list(), |out| {
        for list in lists {
            match list {
                Some(list) => out.push_list(|out| list.iter().try_for_each(|text| push(out, *text))).unwrap(),
                None => out.push_null(),
            }
        }
    });
    let map = buffer(ColumnType::Map, |out| {
        for map in maps {
            out.push_map(|keys, values| {
                map.iter().try_for_each(|(key, value)| keys.push_str(key).and_then(|()| push(values, *value)))
            })
            .unwrap();
        }
    });
    let arrays = arrays(vec![list, map]);
    let mut rows = Rows::new(&schema, &arrays).unwrap();
    let mut digests: Vec<_> = (0..rows.len()).map(|row| rows.digest(row)).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), lists.len());
    let mut again = Rows::new(&schema, &arrays).unwrap();
    assert_eq!(rows.digest(5), again.digest(5));
}

#[test]
fn cells_do_not_run_into_each_other() {
    let schema = schema(vec![column("a", ColumnType::String), column("b", ColumnType::String)], &[0]);
    let text = |cells: &[Option<&str>]| {
        buffer(ColumnType::String, |out| {
            for cell in cells {
                match cell {
                    Some(text) => out.push_str(text).unwrap(),
                    None => out.push_null(),
                }
            }
        })
    };
    let a = text(&[Some("x"), Some("xy"), Some(""), None, Some("xyz")]);
    let b = text(&[Some("yz"), Some("z"), None, Some(""), Some("")]);
    let arrays = arrays(vec![a, b]);
    let mut rows = Rows::new(&schema, &arrays).unwrap();
    let mut digests: Vec<_> = (0..5).map(|row| rows.digest(row)).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 5);
}

#[test]
fn columns_of_another_type_are_refused() {
    let schema = schema(vec![column("a", ColumnType::Long)], &[0]);
    let wrong = arrays(vec![buffer(ColumnType::Int, |cells| cells.push_i32(1))]);
    assert!(Rows::new(&schema, &wrong).is_err());
    assert!(Rows::new(&schema, &[]).is_err());
}

#[test]
fn keys_are_shown_as_people_write_them() {
    let columns = vec![
        column("i", ColumnType::Int),
        column("s", ColumnType::String),
        column("d", ColumnType::Date),
        column("n", ColumnType::Decimal { precision: 10, scale: 2 }),
        column("u", ColumnType::Uuid),
        column("b", ColumnType::Binary),
        column("t", ColumnType::TimestampTz),
        column("o", ColumnType::Boolean),
    ];
    let schema = schema(columns, &[1, 0, 2, 3, 4, 5, 6, 7]);
    let arrays = arrays(vec![
        buffer(ColumnType::Int, |cells| cells.push_i32(-5)),
        buffer(ColumnType::String, |cells| cells.push_str("it's\n").unwrap()),
        buffer(ColumnType::Date, |cells| cells.push_i32(20_786)),
        buffer(schema.columns[3].ty.clone(), |cells| cells.push_decimal(-5)),
        buffer(ColumnType::Uuid, |cells| cells.push_uuid([0x11; 16])),
        buffer(ColumnType::Binary, |cells| cells.push_bytes(&[0, 255]).unwrap()),
        buffer(ColumnType::TimestampTz, |cells| cells.push_i64(-1)),
        buffer(ColumnType::Boolean, |cells| cells.push_bool(true)),
    ]);
    let mut key = Vec::new();
    Rows::new(&schema, &arrays).unwrap().key(0, &mut key);
    assert_eq!(
        key_text(&schema, &key),
        "s = 'it\\'s\\n', i = -5, d = '2026-11-29', n = -0.05, u = '11111111-1111-1111-1111-111111111111', \
         b = '\\x00ff', t = '1969-12-31 23:59:59.999999+00', o = true"
    );
}

/// A source of integers `id` (the key) and `v`.
struct Source {
    schema: Arc<TableSchema>,
    detail: Detail,
    sums: (Sums, Sums),
}

impl Source {
    /// Rows as the source had them at position 100.
    fn new(rows: &[(i32, i32)]) -> Self {
        let schema = schema(vec![column("v", ColumnType::Int), column("id", ColumnType::Int)], &[1]);
        let mut source = Self { schema, detail: Detail::default(), sums: (Sums::for_rows(0), Sums::for_rows(0)) };
        for &row in rows {
            let (key, digest) = source.row(row);
            source.detail.add_source(&key, digest);
            source.sums.0.add(&key, digest);
        }
        source
    }

    fn row(&self, (id, v): (i32, i32)) -> (Vec<u8>, u128) {
        let arrays = arrays([v, id].map(|value| buffer(ColumnType::Int, |cells| cells.push_i32(value))).into());
        let mut rows = Rows::new(&self.schema, &arrays).unwrap();
        let mut key = Vec::new();
        rows.key(0, &mut key);
        (key, rows.digest(0))
    }

    /// Applies transactions up to 200, then compares with the table's rows.
    fn compare(
        mut self,
        transactions: impl FnOnce(&mut Changes<'_>),
        lake: &[(i32, i32)],
    ) -> Vec<(String, Difference)> {
        for &row in lake {
            let (key, digest) = self.row(row);
            self.detail.add_lake(&key, digest);
        }
        // Everything is looked at: one side of the sums is empty.
        for id in 0..100 {
            let (key, digest) = self.row((id, 0));
            self.sums.0.add(&key, digest);
        }
        let buckets = self.sums.0.differing(&self.sums.1).pop().unwrap();
        let until = Position::Postgres(Lsn(200));
        let sides = Sides::new(Arc::clone(&self.schema), &ValueRules::default()).unwrap();
        let mut changes = Changes::new(&until, &sides, &buckets, &mut self.detail);
        transactions(&mut changes);
        assert!(changes.failed.is_none());
        let name = |(key, difference): (&[u8], Difference)| (key_text(&self.schema, key), difference);
        let mut found: Vec<_> = self.detail.differences().map(name).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }
}

/// What was done, the old key, the new image.
type Entry = (RowOp, Option<i32>, Option<(i32, i32)>);

/// One transaction.
fn transaction(changes: &mut Changes<'_>, end: u64, entries: &[Entry]) {
    changes.begin(&TransactionPoint::Postgres { commit_lsn: Lsn(end - 1) });
    for (op, old_key, image) in entries {
        let Some(buffer) = changes.rows(TableIndex(0)) else { continue };
        if let Some(old) = old_key {
            buffer.old(0).push_i32(*old);
        }
        if let Some((id, v)) = image {
            buffer.image(0).push_i32(*v);
            buffer.image(1).push_i32(*id);
        }
        buffer.finish_row(*op);
    }
    changes.commit(Position::Postgres(Lsn(end)), 0);
}

#[test]
fn what_was_in_flight_is_no_difference() {
    let source = Source::new(&[(1, 10), (2, 20), (3, 30), (4, 40)]);
    let found = source.compare(
        |changes| {
            transaction(changes, 150, &[(RowOp::Update, None, Some((1, 11))), (RowOp::Delete, Some(2), None)]);
            transaction(changes, 160, &[(RowOp::UpdateFrom, Some(3), Some((33, 30)))]);
            transaction(changes, 170, &[(RowOp::Insert, None, Some((5, 50)))]);
            // Beyond the table's position: not seen by it yet.
            transaction(changes, 210, &[(RowOp::Delete, Some(5), None)]);
            assert!(changes.is_full());
        },
        &[(1, 11), (33, 30), (4, 40), (5, 50)],
    );
    assert_eq!(found, []);
}

#[test]
fn what_the_table_missed_is_a_difference() {
    let source = Source::new(&[(1, 10), (2, 20)]);
    let found = source.compare(
        |changes| {
            transaction(changes, 200, &[(RowOp::Update, None, Some((1, 11))), (RowOp::Insert, None, Some((7, 70)))]);
        },
        &[(1, 10), (2, 20), (8, 80)],
    );
    let id = |id| format!("id = {id}");
    assert_eq!(found, [(id(1), Difference::Unequal), (id(7), Difference::Missing), (id(8), Difference::Extra)]);
}

/// What an update leaves alone is not in the log, so the row cannot be compared until it is known whole again.
#[test]
fn a_row_that_changed_in_part_is_left_out() {
    let leave_alone = |changes: &mut Changes<'_>, end, id, op| {
        changes.begin(&TransactionPoint::Postgres { commit_lsn: Lsn(end - 1) });
        let buffer = changes.rows(TableIndex(0)).unwrap();
        if op == RowOp::UpdateFrom {
            buffer.old(0).push_i32(id - 1);
        }
        buffer.image(0).push_null();
        buffer.image(1).push_i32(id);
        buffer.note_unchanged(0);
        buffer.finish_row(op);
        changes.commit(Position::Postgres(Lsn(end)), 0);
    };
    let source = Source::new(&[(1, 10), (2, 20), (3, 30), (5, 50), (9, 90)]);
    let found = source.compare(
        |changes| {
            for (end, id) in [(110, 1), (120, 2), (130, 3), (140, 5)] {
                leave_alone(changes, end, id, RowOp::Update);
            }
            leave_alone(changes, 150, 10, RowOp::UpdateFrom);
            transaction(changes, 160, &[(RowOp::Update, None, Some((2, 21))), (RowOp::Delete, Some(3), None)]);
        },
        &[(1, 10), (2, 20), (3, 30), (9, 90), (10, 91)],
    );
    let id = |id| format!("id = {id}");
    let expected = [(id(2), Difference::Unequal), (id(3), Difference::Extra), (id(5), Difference::Missing)];
    assert_eq!(found, [&expected[..], &[(id(9), Difference::Extra)]].concat());
}

#[test]
fn an_emptied_source_is_empty() {
    let source = Source::new(&[(1, 10), (2, 20)]);
    let found = source.compare(
        |changes| {
            transaction(changes, 200, &[(RowOp::Truncate, None, None), (RowOp::Insert, None, Some((2, 21)))]);
        },
        &[(2, 21)],
    );
    assert_eq!(found, []);
}

#[test]
fn an_aborted_transaction_changes_nothing() {
    let source = Source::new(&[(1, 10)]);
    let found = source.compare(
        |changes| {
            changes.begin(&TransactionPoint::Postgres { commit_lsn: Lsn(149) });
            let buffer: &mut RowBuffer = changes.rows(TableIndex(0)).unwrap();
            buffer.old(0).push_i32(1);
            buffer.finish_row(RowOp::Delete);
            changes.abort();
            assert!(!changes.is_full());
            changes.idle(Position::Postgres(Lsn(200)));
            assert!(changes.is_full());
        },
        &[(1, 10)],
    );
    assert_eq!(found, []);
}

#[test]
fn a_change_that_cannot_be_read_ends_the_comparison() {
    let mut source = Source::new(&[]);
    let buckets = {
        let (key, digest) = source.row((1, 1));
        source.sums.0.add(&key, digest);
        source.sums.0.differing(&source.sums.1).pop().unwrap()
    };
    let until = Position::Postgres(Lsn(200));
    let sides = Sides::new(Arc::clone(&source.schema), &ValueRules::default()).unwrap();
    let mut changes = Changes::new(&until, &sides, &buckets, &mut source.detail);
    let reason = StopReason { state: "unrepresentable value".into(), detail: "d".into(), remedy: "r".into() };
    changes.stop(TableIndex(0), reason);
    assert!(changes.is_full());
    assert!(changes.failed.is_some_and(|error| error.to_string().contains("unrepresentable value")));

    let mut changes = Changes::new(&until, &sides, &buckets, &mut source.detail);
    changes.begin(&TransactionPoint::Postgres { commit_lsn: Lsn(100) });
    changes.schema(TableIndex(0), SchemaChange { schema: Arc::clone(&source.schema), existing_rows: None });
    assert!(changes.is_full());
    let failed = changes.failed.expect("rows of two schemas are not compared");
    assert!(failed.kind() == ErrorKind::Retry && failed.to_string().contains("was altered while it was compared"));
}

#[test]
fn schemas_are_told_apart_by_what_rows_show() {
    let base = schema(vec![column("id", ColumnType::Int), column("a", ColumnType::String)], &[0]);
    assert_eq!(schema_difference(&base, &base), None);
    let other = |columns, key: &[usize]| schema_difference(&base, &schema(columns, key)).unwrap();
    assert!(other(vec![column("id", ColumnType::Int)], &[0]).contains("no column a"));
    assert!(
        other(vec![column("id", ColumnType::Long), column("a", ColumnType::String)], &[0]).contains("column id is")
    );
    let more = vec![column("id", ColumnType::Int), column("a", ColumnType::String), column("b", ColumnType::Int)];
    assert!(other(more, &[0]).contains("source has no column b"));
    assert!(other(base.columns.clone(), &[1]).contains("its key is (a)"));
}

//! Row buffers against a model of plain vectors: whatever is appended, taken back and split off, the arrays hold just what stands.

use std::sync::{Arc, LazyLock};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int32Type, TimestampMicrosecondType};
use calve_core::{
    BufferFull, Column, ColumnBuffer, ColumnType, Mark, NativeType, RowBuffer, RowOp, Substituted, TableName,
    TableSchema, Unchanged,
};

static TYPES: LazyLock<[ColumnType; 17]> = LazyLock::new(|| {
    [
        ColumnType::Int,
        ColumnType::Boolean,
        ColumnType::Long,
        ColumnType::Float,
        ColumnType::Double,
        ColumnType::Decimal { precision: 38, scale: 9 },
        ColumnType::String,
        ColumnType::Binary,
        ColumnType::Date,
        ColumnType::Time,
        ColumnType::Timestamp,
        ColumnType::TimestampTz,
        ColumnType::Uuid,
        ColumnType::Int.list(),
        ColumnType::String.list(),
        ColumnType::Boolean.list(),
        ColumnType::Map,
    ]
});

fn schema() -> Arc<TableSchema> {
    let column = |(index, ty): (usize, &ColumnType)| Column {
        id: 0,
        name: format!("c{index}"),
        ty: ty.clone(),
        nullable: index != 0,
        native: NativeType::new(0, -1, ""),
        usage: calve_core::ColumnUse::Values,
    };
    let columns = TYPES.iter().enumerate().map(column).collect();
    Arc::new(TableSchema::new(TableName::new("s", "t"), 1, columns, vec![0]))
}

/// A cell that depends on the row only, so that the arrays can be checked by row number. Every third is NULL.
fn push(column: &mut ColumnBuffer, row: i32, nullable: bool) {
    if nullable && row % 3 == 0 {
        column.push_null();
        return;
    }
    match column.column_type() {
        ColumnType::Boolean => column.push_bool(row % 2 == 0),
        ColumnType::Int | ColumnType::Date => column.push_i32(row),
        ColumnType::Long | ColumnType::Time | ColumnType::Timestamp | ColumnType::TimestampTz => {
            column.push_i64(row.into());
        }
        ColumnType::Float => column.push_f32(1.5),
        ColumnType::Double => column.push_f64(row.into()),
        ColumnType::Decimal { .. } => column.push_decimal(row.into()),
        ColumnType::String => column.push_str(&format!("row {row}")).unwrap(),
        ColumnType::Binary => column.push_bytes(&row.to_le_bytes()).unwrap(),
        ColumnType::Uuid => column.push_uuid([row.to_le_bytes()[0]; 16]),
        ColumnType::List(_) => {
            if row % 7 == 0 {
                // One that fails half-way leaves nothing behind.
                let failed = column.push_list(|elements| {
                    push_element(elements, row);
                    Err(BufferFull)
                });
                assert_eq!(failed, Err(BufferFull));
            }
            column
                .push_list(|elements| {
                    (0..row % 5).for_each(|at| push_element(elements, at));
                    Ok::<_, BufferFull>(())
                })
                .unwrap();
        }
        ColumnType::Map => column
            .push_map(|keys, values| {
                (0..row % 3).try_for_each(|at| {
                    push(values, at, true);
                    keys.push_str(&format!("key {at}"))
                })
            })
            .unwrap(),
    }
}

/// Depends on the place only; every third is NULL.
fn push_element(elements: &mut ColumnBuffer, at: i32) {
    push(elements, at, true);
}

fn append(rows: &mut RowBuffer, row: i32, op: RowOp) {
    if op.has_old_key() {
        rows.old(0).push_i32(row);
    }
    if op.has_image() {
        for (index, column) in rows.images_mut().iter_mut().enumerate() {
            push(column, row, index != 0);
        }
        if leaves_alone(row, op) {
            for column in LEFT_ALONE {
                rows.note_unchanged(column);
            }
        }
    }
    rows.finish_row(op);
}

/// Columns that some updates leave alone.
const LEFT_ALONE: [usize; 2] = [1, 6];

fn leaves_alone(row: i32, op: RowOp) -> bool {
    row % 6 == 0 && matches!(op, RowOp::Update | RowOp::UpdateFrom)
}

/// The buffer's entries, read back from its arrays.
fn check(rows: RowBuffer, expected: &[(i32, RowOp)]) {
    assert_eq!(rows.ops(), expected.iter().map(|(_, op)| *op).collect::<Vec<_>>());
    let with_image = expected.iter().filter(|(_, op)| op.has_image()).enumerate();
    let unchanged: Vec<Unchanged> = with_image
        .filter(|(_, (row, op))| leaves_alone(*row, *op))
        .flat_map(|(image, _)| LEFT_ALONE.map(|column| Unchanged { image, column }))
        .collect();
    assert_eq!(rows.unchanged(), unchanged);
    let (_, images, old_keys) = rows.into_parts();
    let images: Vec<_> = images.into_iter().map(ColumnBuffer::into_array).collect();
    let keys: Vec<_> = old_keys.into_iter().map(ColumnBuffer::into_array).collect();
    for (array, ty) in images.iter().zip(TYPES.iter()) {
        assert_eq!(array.data_type(), &ty.arrow_type());
    }
    let with_image: Vec<i32> = expected.iter().filter(|(_, op)| op.has_image()).map(|(row, _)| *row).collect();
    let with_key: Vec<i32> = expected.iter().filter(|(_, op)| op.has_old_key()).map(|(row, _)| *row).collect();
    assert_eq!(images[0].as_primitive::<Int32Type>().values(), &with_image[..]);
    assert_eq!(keys[0].as_primitive::<Int32Type>().values(), &with_key[..]);
    for (at, &row) in with_image.iter().enumerate() {
        let null = row % 3 == 0;
        assert!(images[1..].iter().all(|array| array.is_null(at) == null), "row {row} at {at}");
        if !null {
            assert_eq!(images[1].as_boolean().value(at), row % 2 == 0);
            assert!((images[4].as_primitive::<Float64Type>().value(at) - f64::from(row)).abs() < f64::EPSILON);
            assert_eq!(images[5].as_primitive::<Decimal128Type>().value(at), i128::from(row));
            assert_eq!(images[6].as_string::<i32>().value(at), format!("row {row}"));
            assert_eq!(images[7].as_binary::<i32>().value(at), row.to_le_bytes());
            assert_eq!(images[11].as_primitive::<TimestampMicrosecondType>().value(at), i64::from(row));
            assert_eq!(images[12].as_fixed_size_binary().value(at), [row.to_le_bytes()[0]; 16]);
            let element = |at| (at % 3 != 0).then_some(at);
            let numbers = images[13].as_list::<i32>().value(at);
            assert!(numbers.as_primitive::<Int32Type>().iter().eq((0..row % 5).map(element)));
            let texts = images[14].as_list::<i32>().value(at);
            let expected: Vec<_> = (0..row % 5).map(|at| element(at).map(|at| format!("row {at}"))).collect();
            assert!(texts.as_string::<i32>().iter().eq(expected.iter().map(Option::as_deref)));
            let flags = images[15].as_list::<i32>().value(at);
            assert!(flags.as_boolean().iter().eq((0..row % 5).map(|at| element(at).map(|at| at % 2 == 0))));
            let entries = images[16].as_map().value(at);
            assert_eq!(entries.len(), usize::try_from(row % 3).unwrap());
            assert!(
                entries.column(1).as_string::<i32>().iter().eq([None, Some("row 1")].into_iter().take(entries.len()))
            );
        }
    }
}

/// A small generator of numbers that are the same in every run (splitmix64).
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % end as u64).unwrap()
    }
}

/// What rows of these numbers say of values that others took the place of.
fn substituted(rows: &[(i32, RowOp)]) -> Substituted {
    let mut total = Substituted::default();
    for (row, _) in rows {
        let (nulled, clamped) = (u64::from(row % 2 == 0), u64::from(row % 5 == 0));
        total.add(Substituted { nulled, clamped });
    }
    total
}

#[test]
fn what_stands_is_what_was_not_taken_back() {
    for seed in 0..300 {
        let mut random = Seeded(seed);
        let mut rows = RowBuffer::new(schema());
        let mut model: Vec<(i32, RowOp)> = Vec::new();
        let mut marks: Vec<(Mark, usize)> = vec![(rows.mark(), 0)];
        for row in 0..60 {
            match random.below(12) {
                0 => {
                    let (mark, len) = marks[random.below(marks.len())];
                    rows.truncate(mark);
                    model.truncate(len);
                    marks.retain(|(_, at)| *at <= len);
                }
                1 => {
                    // A row that fails half-way: some cells, then taken back.
                    rows.note_substituted(Substituted { nulled: 7, clamped: 7 });
                    rows.old(0).push_i32(row);
                    let cells = random.below(TYPES.len());
                    for (index, column) in rows.images_mut().iter_mut().enumerate().take(cells) {
                        push(column, row, index != 0);
                    }
                    if row % 3 == 0 && cells > 1 {
                        rows.note_unchanged(1);
                    }
                    rows.discard_row();
                }
                2 => {
                    let (mark, len) = marks[random.below(marks.len())];
                    let (tail, rest) = (rows.split_off(mark), model.split_off(len));
                    assert_eq!(tail.substituted(), substituted(&rest));
                    check(tail, &rest);
                    marks.retain(|(_, at)| *at <= len);
                }
                _ => {
                    let ops = [RowOp::Insert, RowOp::Update, RowOp::UpdateFrom, RowOp::Delete, RowOp::Truncate];
                    let op = ops[random.below(ops.len())];
                    rows.note_substituted(substituted(&[(row, op)]));
                    append(&mut rows, row, op);
                    model.push((row, op));
                    marks.push((rows.mark(), model.len()));
                }
            }
            assert_eq!(rows.len(), model.len());
        }
        assert_eq!(rows.substituted(), substituted(&model));
        check(rows, &model);
    }
}

#[test]
#[should_panic(expected = "cells missing or left over")]
fn a_row_that_lacks_a_cell_cannot_be_finished() {
    let mut rows = RowBuffer::new(schema());
    rows.image(0).push_i32(1);
    rows.finish_row(RowOp::Insert);
}

#[test]
#[should_panic(expected = "no update leaves a value alone")]
fn an_insert_leaves_nothing_alone() {
    let mut rows = RowBuffer::new(schema());
    for (index, column) in rows.images_mut().iter_mut().enumerate() {
        push(column, 3, index != 0);
    }
    rows.note_unchanged(1);
    rows.finish_row(RowOp::Insert);
}

#[test]
#[should_panic(expected = "wrongly said to be unchanged")]
fn a_key_is_not_left_alone() {
    let mut rows = RowBuffer::new(schema());
    rows.image(0).push_null();
    rows.note_unchanged(0);
}

#[test]
fn keys_are_equal_only_when_they_are_the_same() {
    let columns = ["a", "b"].map(|name| Column {
        id: 0,
        name: name.into(),
        ty: ColumnType::String,
        nullable: false,
        native: NativeType::new(25, -1, "text"),
        usage: calve_core::ColumnUse::Values,
    });
    let schema = Arc::new(TableSchema::new(TableName::new("s", "t"), 1, columns.into(), vec![1, 0]));
    let mut rows = RowBuffer::new(schema);
    let keys = [("", "ab"), ("a", "b"), ("ab", ""), ("b", "a"), ("a\0", "b"), ("a", "\0b")];
    for (a, b) in keys {
        rows.image(0).push_str(a).unwrap();
        rows.image(1).push_str(b).unwrap();
        rows.finish_row(RowOp::Insert);
    }
    let mut encoded: Vec<Vec<u8>> = (0..keys.len())
        .map(|row| {
            let mut bytes = Vec::new();
            rows.encode_image_key(row, &mut bytes);
            bytes
        })
        .collect();
    encoded.sort();
    encoded.dedup();
    assert_eq!(encoded.len(), keys.len());
    // The old key has its columns in the key's order: (b, a).
    rows.old(0).push_str("b").unwrap();
    rows.old(1).push_str("a").unwrap();
    rows.finish_row(RowOp::Delete);
    let (mut old, mut image) = (Vec::new(), Vec::new());
    rows.encode_old_key(0, &mut old);
    rows.encode_image_key(1, &mut image);
    assert_eq!(old, image);
}

#[test]
fn memory_is_counted_with_what_is_in_the_cells_and_given_back_with_them() {
    let mut rows = RowBuffer::new(schema());
    assert_eq!(rows.bytes(), 0);
    append(&mut rows, 1, RowOp::Insert);
    // The operation, and the cells in the order of the types; text and bytes with their offsets.
    let single = 1 + 4 + 1 + 8 + 4 + 8 + 16 + (4 + "row 1".len()) + (4 + 4) + 4 + 8 + 8 + 8 + 16;
    // Lists and maps have offsets of their own, beside those of what is in them; here one NULL each, under one key.
    let offsets = 4 + 4 + 4 + 4;
    let first = single + offsets + 4 + 4 + 1 + (4 + "key 0".len() + 4);
    assert_eq!(rows.bytes(), first);
    let mark = rows.mark();
    append(&mut rows, 22, RowOp::UpdateFrom);
    // Two elements, the latter of them no NULL.
    let second = first + "2".len() + 4 + (4 + 4 + "row 1".len() + 1);
    assert_eq!(rows.bytes(), first + second, "an old key beside the image");
    let tail = rows.split_off(mark);
    assert_eq!((rows.bytes(), tail.bytes()), (first, second));
    append(&mut rows, 5, RowOp::Delete);
    assert_eq!(rows.bytes(), first + 1 + 4);
    rows.truncate(mark);
    assert_eq!(rows.bytes(), first);
    append(&mut rows, 6, RowOp::Update);
    let null = "row 1".len() + 4 + (first - single - offsets);
    assert_eq!(
        rows.bytes(),
        2 * first - null + LEFT_ALONE.len() * size_of::<Unchanged>(),
        "what was left alone counts"
    );
    rows.truncate(mark);
    assert_eq!(rows.bytes(), first);
}

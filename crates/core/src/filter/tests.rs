//! Conditions against a model that looks at one row at a time, and texts of every kind against the reader.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;

use super::Condition;
use super::parse::{Comparison, Literal};
use crate::{Column, ColumnBuffer, ColumnType, ColumnUse, NativeType};

/// A generator of numbers that look random (Knuth's MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

fn column(name: &str, ty: ColumnType) -> Column {
    let native = NativeType::new(0, -1, "");
    Column { id: 0, name: name.to_owned(), ty, nullable: true, native, usage: ColumnUse::Values }
}

/// A column and how values stand in it: as a condition writes them, in ascending order.
struct Kind {
    column: Column,
    values: Vec<Literal>,
    push: fn(&mut ColumnBuffer, usize),
}

fn texts(texts: &[&str]) -> Vec<Literal> {
    texts.iter().map(|text| Literal::Text((*text).to_owned())).collect()
}

fn numbers(texts: &[&str]) -> Vec<Literal> {
    texts.iter().map(|text| Literal::Number((*text).to_owned())).collect()
}

fn kinds() -> Vec<Kind> {
    let decimal = ColumnType::Decimal { precision: 38, scale: 2 };
    vec![
        Kind {
            column: column("i", ColumnType::Int),
            values: numbers(&["-2147483648", "-1", "0", "1", "2147483647"]),
            push: |out, at| out.push_i32([i32::MIN, -1, 0, 1, i32::MAX][at]),
        },
        Kind {
            column: column("or", ColumnType::Long),
            values: numbers(&["-9223372036854775808", "0", "9223372036854775807"]),
            push: |out, at| out.push_i64([i64::MIN, 0, i64::MAX][at]),
        },
        Kind {
            column: column("d e\"c", decimal),
            values: numbers(&["-1.5", "-0.01", "0", "0.01", "1e30"]),
            push: |out, at| out.push_decimal([-150, -1, 0, 1, 10_i128.pow(32)][at]),
        },
        Kind {
            column: column("f", ColumnType::Double),
            values: texts(&["-Infinity", "-0.5", "0", "2.5", "Infinity", "NaN"]),
            push: |out, at| out.push_f64([f64::NEG_INFINITY, -0.5, -0.0, 2.5, f64::INFINITY, f64::NAN][at]),
        },
        Kind {
            column: column("r", ColumnType::Float),
            values: numbers(&["-2", "0.5", "3"]),
            push: |out, at| out.push_f32([-2.0, 0.5, 3.0][at]),
        },
        Kind {
            column: column("s", ColumnType::String),
            values: texts(&["", "A", "a", "a'b", "b", "ä"]),
            push: |out, at| out.push_str(["", "A", "a", "a'b", "b", "ä"][at]).unwrap(),
        },
        Kind {
            column: column("b", ColumnType::Boolean),
            values: vec![Literal::Boolean(false), Literal::Boolean(true)],
            push: |out, at| out.push_bool(at == 1),
        },
        Kind {
            column: column("day", ColumnType::Date),
            values: texts(&["1969-12-31", "1970-01-01", "2024-02-29"]),
            push: |out, at| out.push_i32([-1, 0, 19_782][at]),
        },
        Kind {
            column: column("t", ColumnType::TimestampTz),
            values: texts(&["1969-12-31 23:59:59.999999Z", "1970-01-01 01:00:00+01:00", "1970-01-01 00:00:00.000001"]),
            push: |out, at| out.push_i64([-1, 0, 1][at]),
        },
        Kind {
            column: column("u", ColumnType::Uuid),
            values: texts(&["00000000-0000-0000-0000-000000000001", "f0000000-0000-0000-0000-000000000000"]),
            push: |out, at| {
                let mut uuid = [0; 16];
                uuid[if at == 0 { 15 } else { 0 }] = if at == 0 { 1 } else { 0xf0 };
                out.push_uuid(uuid);
            },
        },
    ]
}

/// A row by the places of its cells among the kinds' values; None is NULL.
type Row = Vec<Option<usize>>;

fn condition(random: &mut Random, kinds: &[Kind], depth: u64) -> Condition {
    const COMPARISONS: [Comparison; 6] = [
        Comparison::Equal,
        Comparison::Unequal,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ];
    let kind = random.pick(kinds);
    let name = kind.column.name.clone();
    match random.below(if depth == 0 { 3 } else { 6 }) {
        0 => Condition::IsNull(name),
        1 => Condition::In(name, (0..=random.below(3)).map(|_| random.pick(&kind.values).clone()).collect()),
        2 => Condition::Compare(name, *random.pick(&COMPARISONS), random.pick(&kind.values).clone()),
        3 => Condition::Not(Box::new(condition(random, kinds, depth - 1))),
        joined => {
            let all = (0..2 + random.below(2)).map(|_| condition(random, kinds, depth - 1)).collect();
            if joined == 4 { Condition::And(all) } else { Condition::Or(all) }
        }
    }
}

/// What SQL says of one row.
#[expect(clippy::manual_try_fold, reason = "NULL does not end what is joined")]
fn model(condition: &Condition, kinds: &[Kind], row: &Row) -> Option<bool> {
    let find = |name: &String| kinds.iter().position(|kind| kind.column.name == *name).unwrap();
    let place = |at: usize, literal: &Literal| kinds[at].values.iter().position(|value| value == literal).unwrap();
    match condition {
        Condition::And(all) => all.iter().map(|one| model(one, kinds, row)).fold(Some(true), |a, b| match (a, b) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        }),
        Condition::Or(all) => all.iter().map(|one| model(one, kinds, row)).fold(Some(false), |a, b| match (a, b) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        }),
        Condition::Not(one) => model(one, kinds, row).map(|holds| !holds),
        Condition::IsNull(name) => Some(row[find(name)].is_none()),
        Condition::In(name, literals) => {
            let cell = row[find(name)]?;
            Some(literals.iter().any(|literal| place(find(name), literal) == cell))
        }
        Condition::Compare(name, comparison, literal) => {
            let order = row[find(name)]?.cmp(&place(find(name), literal));
            Some(match comparison {
                Comparison::Equal => order == Ordering::Equal,
                Comparison::Unequal => order != Ordering::Equal,
                Comparison::Less => order == Ordering::Less,
                Comparison::LessOrEqual => order != Ordering::Greater,
                Comparison::Greater => order == Ordering::Greater,
                Comparison::GreaterOrEqual => order != Ordering::Less,
            })
        }
    }
}

#[test]
fn rows_are_selected_as_sql_selects_them() {
    let (mut random, kinds) = (Random(7), kinds());
    let columns: Vec<Column> = kinds.iter().map(|kind| kind.column.clone()).collect();
    let rows: Vec<Row> = (0..100)
        .map(|_| {
            let cell = |kind: &Kind| {
                (random.below(4) > 0).then(|| usize::try_from(random.below(kind.values.len() as u64)).unwrap())
            };
            kinds.iter().map(cell).collect()
        })
        .collect();
    let array = |(at, kind): (usize, &Kind)| {
        let mut cells = ColumnBuffer::new(kind.column.ty.clone());
        for row in &rows {
            match row[at] {
                Some(value) => (kind.push)(&mut cells, value),
                None => cells.push_null(),
            }
        }
        cells.into_array()
    };
    let arrays: Vec<ArrayRef> = kinds.iter().enumerate().map(array).collect();
    let (mut had, mut missed) = (0, 0);
    for _ in 0..2000 {
        let condition = condition(&mut random, &kinds, 4);
        let filter = condition.bind(&columns).unwrap();
        let selected = filter.selects(&arrays);
        let expected: Vec<bool> = rows.iter().map(|row| model(&condition, &kinds, row) == Some(true)).collect();
        assert_eq!(selected.iter().collect::<Vec<_>>(), expected, "{condition}");
        had += selected.count_set_bits();
        // Whatever the cells are that are missing, what may be selected is.
        let missing: Vec<Option<BooleanBuffer>> = kinds
            .iter()
            .map(|_| (random.below(3) == 0).then(|| BooleanBuffer::collect_bool(rows.len(), |_| random.below(2) == 0)))
            .collect();
        let may = filter.may_select(&arrays, &missing);
        for (at, row) in rows.iter().enumerate() {
            let lacks: Vec<usize> =
                (0..kinds.len()).filter(|k| missing[*k].as_ref().is_some_and(|missing| missing.value(at))).collect();
            let tries = (0..20).map(|_| {
                let mut row = row.clone();
                for &k in &lacks {
                    let place = usize::try_from(random.below(kinds[k].values.len() as u64 + 1)).unwrap();
                    row[k] = (place < kinds[k].values.len()).then_some(place);
                }
                model(&condition, &kinds, &row) == Some(true)
            });
            let possible = tries.collect::<Vec<_>>().contains(&true);
            assert!(may.value(at) || !possible, "{condition} of {row:?} less {lacks:?}");
            if lacks.is_empty() {
                assert_eq!(may.value(at), expected[at], "{condition}");
            }
            missed += usize::from(!may.value(at) && !lacks.is_empty());
        }
        // Values left alone are not NULL.
        let may = filter.may_select_unchanged(&arrays, &missing);
        for (at, row) in rows.iter().enumerate() {
            let lacks: Vec<usize> =
                (0..kinds.len()).filter(|k| missing[*k].as_ref().is_some_and(|missing| missing.value(at))).collect();
            let tries = (0..20).map(|_| {
                let mut row = row.clone();
                for &k in &lacks {
                    row[k] = Some(usize::try_from(random.below(kinds[k].values.len() as u64)).unwrap());
                }
                model(&condition, &kinds, &row) == Some(true)
            });
            let possible = tries.collect::<Vec<_>>().contains(&true);
            assert!(may.value(at) || !possible, "{condition} of {row:?} with {lacks:?} unchanged");
        }
        assert_eq!(condition.to_string().parse(), Ok(condition));
    }
    let is_null: Condition = "note is null".parse().unwrap();
    let note = Column { name: "note".to_owned(), ty: ColumnType::String, nullable: true, ..columns[0].clone() };
    let filter = is_null.bind(&[note]).unwrap();
    let (nothing, lacks) =
        (arrow_array::new_null_array(&arrow_schema::DataType::Utf8, 1), [Some(BooleanBuffer::new_set(1))]);
    assert!(filter.may_select(&[Arc::clone(&nothing)], &lacks).value(0));
    assert!(!filter.may_select_unchanged(&[nothing], &lacks).value(0));
    assert!(had > 10_000 && missed > 10_000, "the conditions say nothing: {had} {missed}");
}

#[test]
fn whatever_is_written_is_read_or_refused() {
    const PIECES: [&str; 30] = [
        "a", "b1", "\"x y\"", "`q`", "and", "OR", "Not", "is", "null", "in", "true", "false", "(", ")", ",", "=", "<>",
        "!=", "<", "<=", ">", ">=", "1", "-1.5e3", "'t'", "'it''s'", "'", "\"", "é", ";",
    ];
    let (mut random, mut read) = (Random(3), 0);
    for _ in 0..200_000 {
        let spaces = random.below(2) == 0;
        let pieces: Vec<&str> = (0..=random.below(9)).map(|_| *random.pick(&PIECES)).collect();
        let text = pieces.join(if spaces { " " } else { "" });
        if let Ok(condition) = text.parse::<Condition>() {
            read += 1;
            assert_eq!(condition.to_string().parse(), Ok(condition), "{text}");
        }
    }
    assert!(read > 300, "{read}");
}

#[test]
fn what_is_wrong_is_said() {
    for (text, says) in [
        ("", "it ends where the name of a column is needed"),
        ("a", "it ends after column a"),
        ("a = null", "nothing compares with NULL"),
        ("a = b", "'b' stands where a number"),
        ("a = 'x", "lacks its closing quote"),
        ("a like 'x%'", "'like' stands after column a"),
        ("a = 1 b = 2", "'b' follows a condition that is complete"),
        ("a in 1", "after IN"),
        ("a in (1 2)", "among the values of IN"),
        ("a is 1", "after IS"),
        ("(a = 1", "a closing parenthesis is needed"),
        ("a = 1x", "begins like a number"),
        ("a; drop", "';' has no meaning"),
        ("1 = a", "'1' stands where the name of a column is needed"),
        ("a not = 1", "after column a"),
    ] {
        let error = text.parse::<Condition>().unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
    let deep = format!("{}a = 1{}", "(".repeat(1000), ")".repeat(1000));
    assert!(deep.parse::<Condition>().unwrap_err().contains("within each other"));
}

#[test]
fn what_does_not_fit_a_column_is_said_with_its_type() {
    let columns = [
        column("n", ColumnType::Int),
        column("s", ColumnType::String),
        column("d", ColumnType::Date),
        column("u", ColumnType::Uuid),
        column("b", ColumnType::Boolean),
        column("x", ColumnType::Binary),
        column("l", ColumnType::Int.list()),
    ];
    for (text, says) in [
        ("m = 1", "there is no column m in the lake; there are n, s"),
        ("N = 1", "there is no column N"),
        ("n = '1'", "column n is int, which is not compared with '1': write a number without quotes"),
        ("s in ('a', 1)", "column s is string, which is not compared with 1"),
        ("d > '2024-02-30'", "column d is date"),
        ("u = 'x'", "column u is uuid"),
        ("b = 1", "write true or false"),
        ("x = 'a'", "column x is binary, of which only IS NULL is asked"),
        ("l = 1", "column l is list<int>, of which only IS NULL is asked"),
    ] {
        let error = text.parse::<Condition>().unwrap().bind(&columns).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
    let condition: Condition = "x is not null and not l is null or n < 1.5".parse().unwrap();
    condition.bind(&columns).unwrap();
    assert_eq!(condition.columns().into_iter().collect::<Vec<_>>(), ["l", "n", "x"]);
}

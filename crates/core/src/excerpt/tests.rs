//! What a table's rows become, and what is refused.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;

use super::*;
use crate::{ColumnRules, ColumnType, Evolution, NativeType, RowOp, Secret, TableMode, TableName, TableRules};

fn salt(text: &str) -> MaskKey {
    MaskKey::new(&Secret::new(text)).unwrap()
}

fn rules() -> TableRules {
    let mask = ColumnRules { mask: true, ..ColumnRules::default() };
    TableRules {
        selection: ColumnSelection::Without(vec![ColumnPattern::new("secret*")]),
        filter: Some("n > 10 and region <> 'us'".to_owned()),
        mask: Some(salt("0123456789abcdef")),
        columns: [("email".to_owned(), mask)].into(),
        of_this_table: true,
        ..TableRules::default()
    }
}

/// `secret_a, id, n, email, region, secret_b`.
fn schema(mode: TableMode) -> TableSchema {
    let names = ["secret_a", "id", "n", "email", "region", "secret_b"];
    let column = |(id, name): (u32, &str)| Column {
        id,
        name: name.to_owned(),
        ty: if ["id", "n"].contains(&name) { ColumnType::Int } else { ColumnType::String },
        nullable: name != "id",
        native: NativeType::new(0, -1, "x"),
        usage: ColumnUse::Values,
    };
    TableSchema {
        mode,
        ..TableSchema::new(TableName::new("s", "t"), 1, (1..).zip(names).map(column).collect(), vec![1])
    }
}

/// Rows of number, email and region, as a decoder appends them.
fn buffer(schema: &TableSchema, rows: &[(i32, Option<&str>, &str)]) -> RowBuffer {
    let mut buffer = RowBuffer::new(Arc::new(schema.clone()));
    for (id, (n, email, region)) in (1..).zip(rows) {
        buffer.image(1).push_i32(id);
        buffer.image(2).push_i32(*n);
        match email {
            Some(email) => buffer.image(3).push_str(email).unwrap(),
            None => buffer.image(3).push_null(),
        }
        buffer.image(4).push_str(region).unwrap();
        buffer.finish_row(RowOp::Insert);
    }
    buffer
}

#[test]
fn the_lake_gets_what_the_schema_says() {
    for mode in [TableMode::Upsert, TableMode::Append { preimages: false }] {
        let schema = rules().applied(schema(mode));
        let excerpt = Excerpt::of(&schema, &ValueRules::new(|_| rules())).unwrap();
        let in_lake = schema.in_lake();
        let names: Vec<_> = in_lake.columns.iter().map(|column| column.name.as_str()).take(4).collect();
        assert_eq!(names, ["id", "n", "email", "region"]);
        assert_eq!(in_lake.key, if mode.is_upsert() { vec![0] } else { vec![] });
        let rows = [
            (11, Some("a@x"), "eu"),
            (10, Some("b@x"), "eu"),
            (12, None, "eu"),
            (13, Some("c@x"), "us"),
            (14, Some("a@x"), "eu"),
        ];
        let (columns, count) = excerpt.loaded(buffer(&schema, &rows)).unwrap();
        assert_eq!((columns.len(), count), (in_lake.columns.len(), 3));
        assert_eq!(columns[0].as_primitive::<Int32Type>().values(), &[1, 3, 5]);
        let digest = salt("0123456789abcdef").digest("a@x");
        let emails: Vec<_> = columns[2].as_string::<i32>().iter().collect();
        assert_eq!(emails, [Some(digest.as_str()), None, Some(&*digest)]);
    }
}

#[test]
fn a_decoder_appends_nothing_to_columns_that_are_left_out() {
    let schema = rules().applied(schema(TableMode::Append { preimages: true }));
    let mut rows = buffer(&schema, &[(1, None, "a"), (2, None, "b")]);
    let mark = rows.mark();
    for (place, text) in [(3, "e"), (4, "r")] {
        rows.image(place).push_str(text).unwrap();
        rows.old(place).push_str(text).unwrap();
    }
    for (image, old) in [(1, 9), (2, 9)] {
        rows.image(image).push_i32(9);
        rows.old(image).push_i32(old);
    }
    rows.note_old_in_part();
    rows.finish_row(RowOp::UpdateFrom);
    let tail = rows.split_off(mark);
    assert!(tail.is_old_in_part());
    let (_, images, old) = tail.into_parts();
    assert!(images.iter().chain(&old).all(|column| column.len() == 1));
    assert!(images[0].is_null(0) && old[5].is_null(0) && !old[3].is_null(0));
    rows.image(1).push_i32(3);
    rows.discard_row();
    assert_eq!(rows.len(), 2);
}

#[test]
fn what_a_table_cannot_have_is_named() {
    type Change = fn(&mut TableRules);
    let cases: [(Change, &str); 11] = [
        (
            |rules| rules.selection = ColumnSelection::Without(vec![ColumnPattern::new("id")]),
            "key column id of table s.t is left out",
        ),
        (
            |rules| rules.selection = ColumnSelection::Only(vec![ColumnPattern::new("n*")]),
            "key column id of table s.t is left out by include_columns",
        ),
        (
            |rules| rules.selection = ColumnSelection::Without(vec![ColumnPattern::new("note")]),
            "exclude_columns of table s.t has note, and the table has no such column",
        ),
        (
            |rules| rules.selection = ColumnSelection::Without(vec![ColumnPattern::new("*")]),
            "no column of table s.t is left",
        ),
        (
            |rules| drop(rules.columns.insert("id".into(), ColumnRules { mask: true, ..ColumnRules::default() })),
            "key column id of table s.t has a mask",
        ),
        (|rules| rules.mask = None, "column email of table s.t has a mask, and there is no salt"),
        (|rules| rules.filter = Some("n = 'x'".into()), "'where' of table s.t does not fit it: column n is int"),
        (|rules| rules.filter = Some("m = 1".into()), "there is no column m"),
        (|rules| rules.filter = Some("email = 'x'".into()), "looks at column email, which has a mask"),
        (|rules| rules.filter = Some("secret_a = 'x'".into()), "looks at column secret_a, which is left out"),
        (|_| {}, ""),
    ];
    for (change, says) in cases {
        let mut rules = rules();
        change(&mut rules);
        let findings = rules.excerpt_findings(&rules.applied(schema(TableMode::Upsert)), &[]);
        let found = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(found.contains(says) && found.is_empty() == says.is_empty(), "{says}: {found}");
    }
    // A column that the log does not carry may be named, and a pattern that matches nothing.
    let mut rules = rules();
    rules.selection = ColumnSelection::Without(vec![ColumnPattern::new("computed"), ColumnPattern::new("x*")]);
    assert_eq!(rules.excerpt_findings(&rules.applied(schema(TableMode::Upsert)), &["computed"]), []);
}

#[test]
fn what_counts_only_when_a_table_is_read_again_is_said() {
    let stands = rules().applied(schema(TableMode::Upsert));
    let of = |change: fn(&mut TableRules)| {
        let mut rules = rules();
        change(&mut rules);
        ValueRules::new(move |_| rules.clone())
    };
    assert_eq!(of(|_| {}).unapplied_excerpt(&stands), Vec::<String>::new());
    let said = of(|rules| {
        rules.selection = ColumnSelection::Without(vec![ColumnPattern::new("region")]);
        rules.filter = None;
        rules.columns.clear();
    })
    .unapplied_excerpt(&stands);
    assert_eq!(
        said,
        [
            "column secret_a is to be left out no longer",
            "column email is to have a mask no longer",
            "column region is to be left out",
            "column secret_b is to be left out no longer",
            "'where' is to be none (it is n > 10 and region <> 'us')",
        ]
    );
    // Digests under two salts would not be equal where the values are.
    for (rules, says) in [
        (of(|rules| rules.mask = Some(salt("another salt of 16"))), "under another salt"),
        (of(|rules| rules.mask = None), "there is no salt"),
    ] {
        let error = rules.check([&stands].into_iter()).unwrap_err();
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains(says), "{error}");
    }
    of(|rules| rules.columns.clear()).check([&stands].into_iter()).unwrap();
}

#[test]
fn changes_of_what_is_left_out_change_nothing_and_what_comes_in_was_never_read() {
    let before = rules().applied(schema(TableMode::Upsert));
    let changed = |change: &dyn Fn(&mut TableSchema)| {
        let mut next = before.clone();
        change(&mut next);
        before.evolution(&next)
    };
    let kept = |change: &dyn Fn(&mut TableSchema)| assert_eq!(changed(change), Evolution::Kept);
    let again = |says: &str, change: &dyn Fn(&mut TableSchema)| match changed(change) {
        Evolution::ReadAgain(why) => assert!(why.contains(says), "{why}"),
        Evolution::Kept => panic!("{says}"),
    };
    kept(&|next| {
        next.columns.remove(5);
    });
    kept(&|next| next.columns[0].ty = ColumnType::Date);
    kept(&|next| {
        next.columns.push(Column { id: 9, nullable: false, name: "secret_c".into(), ..next.columns[0].clone() });
    });
    // An included column under a name that is left out is dropped.
    kept(&|next| next.columns[3].usage = ColumnUse::LeftOut);
    again("was left out as \"secret_b\"", &|next| {
        (next.columns[5].usage, next.columns[5].name) = (ColumnUse::Values, "open".into());
    });
    again("has no mask under that name", &|next| next.columns[3].usage = ColumnUse::Values);
    again("was renamed to \"m\"; correct 'where' first", &|next| next.columns[2].name = "m".into());
    again("column \"n\", by which 'where' chooses rows, was dropped", &|next| {
        next.columns.remove(2);
    });
    again("changed from", &|next| next.columns[2].ty = ColumnType::Long);
    again("which is left out of the lake", &|next| next.key.push(0));
}

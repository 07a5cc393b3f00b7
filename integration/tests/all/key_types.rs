//! Every type that can be a key: rows are found again by it, whatever odd value it has.

use crate::case::Case;

const KEYS: &[(&str, &str, &[&str])] = &[
    ("bools", "boolean", &["true", "false"]),
    ("smallints", "smallint", &["-32768", "0", "32767"]),
    ("ints", "integer", &["-2147483648", "-1", "0", "2147483647"]),
    ("bigints", "bigint", &["-9223372036854775808", "0", "9223372036854775807"]),
    ("numerics", "numeric(20,5)", &["-123456789012345.12345", "0", "0.00001", "999999999999999.99999"]),
    ("free_numerics", "numeric", &["1.5", "1e30", "-0.1", "0"]),
    ("texts", "text", &["''", "'a'", "'A'", "'a '", "'ä'", "'a''b'", "E'x\\ny'"]),
    ("chars", "character(4)", &["''", "'a'", "'abcd'"]),
    ("varchars", "varchar(9)", &["''", "'ä日'", "'b'"]),
    ("byteas", "bytea", &["''", "'\\x00'", "'\\x0000'", "'\\xff00'"]),
    ("dates", "date", &["'0001-01-01'", "'1969-12-31'", "'1970-01-01'", "'9999-12-31'"]),
    ("timestamps", "timestamp", &["'1969-12-31 23:59:59.999999'", "'1970-01-01'", "'2024-02-29 00:00:00.000001'"]),
    (
        "instants",
        "timestamptz",
        &["'1969-12-31 23:59:59.999999+00'", "'1970-01-01 00:00+00'", "'2024-02-29 00:00:00.000001+05'"],
    ),
    (
        "uuids",
        "uuid",
        &[
            "'00000000-0000-0000-0000-000000000000'",
            "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'",
            "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
        ],
    ),
    ("moods", "mood", &["'sad'", "'happy'", "'ok'"]),
];

fn names() -> Vec<String> {
    let plain = KEYS.iter().map(|(name, ..)| format!("public.{name}"));
    plain.chain(["public.mixed".to_owned()]).collect()
}

fn create_and_fill() -> String {
    let mut sql = "create type mood as enum ('sad', 'ok', 'happy');".to_owned();
    for (name, kind, values) in KEYS {
        sql += &format!("create table {name} (v int, k {kind} primary key, n int);");
        for value in *values {
            sql += &format!("insert into {name} values (0, cast({value} as {kind}), {});", value.len());
        }
    }
    sql + "
        create table mixed (t text, d date, n numeric(9,2), v int, primary key (n, t, d));
        insert into mixed select 't' || i % 3, date '2000-01-01' + i % 5, i / 100.0, i from generate_series(1, 60) i;"
}

/// The first value of each type goes, the second keeps its row but not its content, the last trades places with the first.
fn change() -> String {
    let mut sql = String::new();
    for (name, kind, values) in KEYS {
        let (first, second, last) = (values[0], values[1], values[values.len() - 1]);
        sql += &format!(
            "update {name} set v = v + 1; update {name} set v = 100 where k = cast({second} as {kind}); delete from {name} where k = cast({first} as {kind});
             update {name} set k = cast({first} as {kind}), v = v + 1000 where k = cast({last} as {kind});"
        );
    }
    sql + "update mixed set v = -v where n > 0.3; delete from mixed where d = '2000-01-02'; update mixed set t = t || '!' where t = 't1'"
}

#[test]
fn every_kind_of_key_finds_its_row() -> anyhow::Result<()> {
    let names = names();
    let tables: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut case = Case::new("keytypes", &create_and_fill(), &tables)?;
    case.once_and_same(&tables)?;
    case.sql.run(&change())?;
    case.once_and_same(&tables)?;
    // Rows that came by the stream, not by the load, are found again too.
    case.sql.run("update mixed set v = v + 1; delete from texts; insert into texts values (1, 'a', 2), (2, 'A', 2)")?;
    for (name, ..) in KEYS {
        case.sql.run(&format!("update {name} set v = v + 7"))?;
    }
    case.once_and_same(&tables)?;
    case.same_by_spark(&tables)?;
    case.pass()
}

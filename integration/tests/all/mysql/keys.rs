//! Every type that can be a key: rows are found again by it, whatever odd value it has and however the server compares it.

use calve_testkit::servers::{Kind, Server};

use super::{BinlogCase, on_every_server};

/// Table, type and values, of which the server takes all for different ones.
const KEYS: &[(Option<Kind>, &str, &str, &[&str])] = &[
    (None, "tinyints", "tinyint", &["-128", "0", "127"]),
    (None, "utinyints", "tinyint unsigned", &["0", "128", "255"]),
    (None, "smallints", "smallint", &["-32768", "0", "32767"]),
    (None, "mediumints", "mediumint", &["-8388608", "-1", "8388607"]),
    (None, "umediumints", "mediumint unsigned", &["0", "8388608", "16777215"]),
    (None, "ints", "int", &["-2147483648", "-1", "1", "2147483647"]),
    (None, "uints", "int unsigned", &["1", "2147483648", "4294967295"]),
    (None, "bigints", "bigint", &["-9223372036854775808", "1", "9223372036854775807"]),
    (None, "ubigints", "bigint unsigned", &["1", "9223372036854775808", "18446744073709551615"]),
    (None, "decimals", "decimal(20,5)", &["-123456789012345.12345", "0", "0.00001", "999999999999999.99999"]),
    (
        None,
        "long_decimals",
        "decimal(50,10)",
        &["-1234567890123456789012345678901234567890.5", "0", "1234567890123456789012345678901234567890.5"],
    ),
    (
        None,
        "texts",
        "varchar(9) character set utf8mb4",
        &["''", "'a'", "'b '", "'\u{e4}b'", "'\u{1f600}'", "'a''b'", "'x\\ny'"],
    ),
    (
        None,
        "binary_texts",
        "varchar(9) character set utf8mb4 collate utf8mb4_bin",
        &["'a'", "'A'", "'\u{e4}'", "'\u{c4}'"],
    ),
    (None, "latins", "varchar(9) character set latin1", &["'caf\u{e9}'", "'b'", "'\u{df}'"]),
    (None, "chars", "char(4)", &["''", "'a'", "'abcd'"]),
    (None, "varbinaries", "varbinary(9)", &["''", "0x00", "0x0000", "0xff00", "'a'", "'a '"]),
    (None, "binaries", "binary(3)", &["0x000000", "0x010000", "0x0100ff", "0x202020"]),
    (None, "dates", "date", &["'1000-01-01'", "'1969-12-31'", "'9999-12-31'"]),
    (
        None,
        "datetimes",
        "datetime(6)",
        &["'1969-12-31 23:59:59.999999'", "'1970-01-01'", "'2024-02-29 00:00:00.000001'"],
    ),
    (
        None,
        "instants",
        "timestamp(6)",
        &["'1970-01-01 00:00:01'", "'2024-02-29 00:00:00.000001'", "'2038-01-19 03:14:07.999999'"],
    ),
    (None, "years", "year", &["1901", "2024", "2155"]),
    (None, "enums", "enum('sad', 'ok', 'happy')", &["'sad'", "'happy'", "'ok'"]),
    (None, "sets", "set('a', 'b', 'c')", &["''", "'a,c'", "'b'"]),
    (None, "bits", "bit(64)", &["0", "1", "0xffffffffffffffff"]),
    (
        Some(Kind::MariaDb),
        "uuids",
        "uuid",
        &[
            "'00000000-0000-0000-0000-000000000000'",
            "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'",
            "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
        ],
    ),
    (Some(Kind::MariaDb), "addresses", "inet6", &["'::'", "'2001:db8::1'", "'::ffff:192.0.2.1'"]),
];

type Key = (Option<Kind>, &'static str, &'static str, &'static [&'static str]);

fn keys(kind: Kind) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |(only, ..)| only.is_none_or(|only| only == kind))
}

fn create_and_fill(kind: Kind) -> String {
    let mut sql = String::new();
    for (_, name, ty, values) in keys(kind) {
        sql += &format!("create table {name} (v int, k {ty} not null, n int, primary key (k));");
        for (n, value) in values.iter().enumerate() {
            sql += &format!("insert into {name} values (0, {value}, {n});");
        }
    }
    let sixty = super::numbers(1, 60);
    sql + &format!(
        "create table mixed (t varchar(20), d date, n decimal(9,2), v int, u bigint unsigned, primary key (n, t, u, d));
         insert into mixed select concat('t', i % 3), date_add('2000-01-01', interval i % 5 day), i / 100.0, i,
             18446744073709551615 - i from {sixty};"
    )
}

/// The first value of each type goes, the second keeps its row but not its content, the last takes the place of the first.
fn change(kind: Kind) -> String {
    let mut sql = String::new();
    for (_, name, _, values) in keys(kind) {
        let (first, second, last) = (values[0], values[1], values[values.len() - 1]);
        sql += &format!(
            "update {name} set v = v + 1; update {name} set v = 100 where k = {second}; delete from {name} where k = {first};
             update {name} set k = {first}, v = v + 1000 where k = {last};"
        );
    }
    sql + "update mixed set v = -v where n > 0.3; delete from mixed where d = '2000-01-02';
           update mixed set t = concat(t, '!') where t = 't1'; update mixed set u = u - 100 where v < 0"
}

fn every_kind_of_key_finds_its_row(server: &Server) -> anyhow::Result<()> {
    let kind = server.kind();
    let tables: Vec<&str> = keys(kind).map(|(_, name, ..)| *name).chain(["mixed"]).collect();
    let mut case = BinlogCase::on(server, "keytypes", &create_and_fill(kind), &tables)?;
    case.once_and_same(&tables)?;
    case.sql.run(&change(kind))?;
    case.once_and_same(&tables)?;
    // Rows that came by the stream, not by the load, are found again too.
    case.sql.run("update mixed set v = v + 1; delete from texts; insert into texts values (1, 'a', 2), (2, 'c', 2)")?;
    for (_, name, ..) in keys(kind) {
        case.sql.run(&format!("update {name} set v = v + 7"))?;
    }
    case.once_and_same(&tables)?;
    case.same_by_spark(&tables)?;
    case.pass()
}

/// Keys that the server takes for the same: one row takes the other's place, and the lake has just the one that is there.
fn keys_that_differ_in_case_and_blanks_are_the_servers(server: &Server) -> anyhow::Result<()> {
    let schema = "
        create table folded (k varchar(9) character set utf8mb4 collate utf8mb4_general_ci primary key, v int);
        create table accents (k varchar(9) character set utf8mb4 collate utf8mb4_unicode_ci, n int, v int, primary key (n, k));
        create table padded (k char(6) character set latin1 primary key, v int);
        create table exact_ (k varchar(9) character set utf8mb4 collate utf8mb4_bin primary key, v int);
        create table swedish (k varchar(9) character set latin1 collate latin1_swedish_ci primary key, v int);
        insert into folded values ('A', 1), ('b', 1), ('c ', 1), ('D', 1);
        insert into accents values ('e', 1, 1), ('o', 1, 1), ('\u{df}', 1, 1);
        insert into padded values ('a  ', 1), ('b', 1), ('', 1);
        insert into exact_ values ('a', 1), ('A', 1), ('\u{e4}', 1);
        insert into swedish values ('Gr\u{fc}n', 1), ('x', 1);";
    let tables = ["folded", "accents", "padded", "exact_", "swedish"];
    let mut case = BinlogCase::on(server, "collations", schema, &tables)?;
    case.once_and_same(&tables)?;
    let changes = "
        update folded set k = 'a' where k = 'A'; update folded set v = 2 where k = 'B'; replace into folded values ('C', 5);
        delete from folded where k = 'd'; insert into folded values ('d', 7);
        insert into folded values ('a ', 9) on duplicate key update v = 10, k = 'A ';
        update accents set k = '\u{e9}' where k = 'E'; replace into accents values ('\u{d6}', 1, 2);
        update accents set k = 'ss' where k = '\u{df}' and n = 1;
        update padded set k = 'A ' where k = 'a'; replace into padded values ('B   ', 2); update padded set v = 3 where k = '  ';
        delete from exact_ where k = 'a'; insert into exact_ values ('a', 3), ('\u{c4}', 1); update exact_ set k = 'b' where k = 'A';
        update swedish set k = 'GR\u{dc}N' where k = 'gr\u{fc}n'; replace into swedish values ('X', 2);";
    case.sql.run(changes)?;
    case.once_and_same(&tables)?;
    // All of it again by a running calve, in small checkpoints.
    let calve = case.pipeline.clone().checkpoint("interval", "1ms").start()?;
    case.sql.run(
        "update folded set k = lower(k); update folded set k = upper(k); update padded set k = upper(k);
         update swedish set k = lower(k); update accents set k = upper(k)",
    )?;
    case.await_same(&tables)?;
    calve.terminate()?;
    // What is read whole says the same as what was followed.
    case.reload(&tables)?;
    case.once_and_same(&tables)?;
    case.same_by_spark(&tables)?;
    case.pass()
}

on_every_server!(every_kind_of_key_finds_its_row, keys_that_differ_in_case_and_blanks_are_the_servers);

//! Every type, at its edges, by load and by stream: what DuckDB and Spark read is what the server prints.

use anyhow::ensure;
use calve_integration::readers;
use calve_testkit::readers::Reader;
use calve_testkit::servers::{Kind, Options, Server};

use super::{BinlogCase, on_every_server, on_every_version};

const MYSQL: Option<Kind> = Some(Kind::MySql);
const MARIADB: Option<Kind> = Some(Kind::MariaDb);

/// Types and their odd values, as SQL: the least, the greatest, zero, and what tends to go wrong. Without a kind: of both.
const TYPES: &[(Option<Kind>, &str, &[&str])] = &[
    (None, "tinyint", &["-128", "127", "0", "-1"]),
    (None, "tinyint unsigned", &["255", "0", "128"]),
    (None, "tinyint(1)", &["0", "1", "-128", "127"]),
    (None, "smallint", &["-32768", "32767", "-1"]),
    (None, "smallint unsigned", &["65535", "0", "32768"]),
    (None, "mediumint", &["-8388608", "8388607", "-1", "0"]),
    (None, "mediumint unsigned", &["16777215", "0", "8388608"]),
    (None, "int", &["-2147483648", "2147483647", "-1", "0"]),
    (None, "int unsigned", &["4294967295", "0", "2147483648"]),
    (None, "int(7) unsigned zerofill", &["42", "4294967295"]),
    (None, "bigint", &["-9223372036854775808", "9223372036854775807", "-1", "0"]),
    (None, "bigint unsigned", &["18446744073709551615", "0", "9223372036854775808", "9223372036854775807"]),
    (None, "float", &["3.40282e38", "-3.40282e38", "1.17549435e-38", "0.1", "16777216", "-0e0", "0"]),
    (None, "float unsigned", &["0.5", "0"]),
    (
        None,
        "double",
        &[
            "1.7976931348623157e308",
            "-1.7976931348623157e308",
            "2.2250738585072014e-308",
            "0.1",
            "1e15",
            "-0e0",
            "123456.789",
        ],
    ),
    (None, "decimal(12,3)", &["-999999999.999", "999999999.999", "0", "0.001", "-0.5"]),
    (
        None,
        "decimal(38,0)",
        &["-99999999999999999999999999999999999999", "99999999999999999999999999999999999999", "0"],
    ),
    (None, "decimal(38,30)", &["-99999999.999999999999999999999999999999", "0.000000000000000000000000000001"]),
    (None, "decimal(4,0)", &["-9999", "9999"]),
    (None, "decimal(5,5)", &["-0.99999", "0.00001"]),
    (
        None,
        "decimal(65,30)",
        &[
            "-99999999999999999999999999999999999.999999999999999999999999999999",
            "99999999999999999999999999999999999.999999999999999999999999999999",
            "0",
            "-0.000000000000000000000000000001",
        ],
    ),
    (None, "decimal(65,0)", &["-99999999999999999999999999999999999999999999999999999999999999999", "1", "0"]),
    (None, "decimal(39,2) unsigned zerofill", &["1.5", "0"]),
    (None, "bit(1)", &["b'1'", "b'0'"]),
    (None, "bit(7)", &["b'1111111'", "0", "1"]),
    (None, "bit(9)", &["b'100000001'", "b'11111111'"]),
    (None, "bit(63)", &["0x7fffffffffffffff", "0"]),
    (None, "bit(64)", &["0xffffffffffffffff", "0x8000000000000000", "0"]),
    (None, "year", &["0", "1901", "2155", "2024"]),
    (None, "date", &["'1000-01-01'", "'9999-12-31'", "'0000-00-00'", "'2024-00-00'", "'2024-02-29'", "'0001-01-01'"]),
    (
        None,
        "datetime",
        &["'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'0000-00-00 00:00:00'", "'2024-03-31 02:30:00'"],
    ),
    (
        None,
        "datetime(6)",
        &[
            "'1969-12-31 23:59:59.999999'",
            "'9999-12-31 23:59:59.999999'",
            "'0000-00-00 00:00:00'",
            "'2024-00-10 01:02:03.5'",
        ],
    ),
    (None, "datetime(3)", &["'2024-02-29 12:30:15.120'", "'1970-01-01 00:00:00.001'"]),
    (None, "timestamp null", &["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'0000-00-00 00:00:00'"]),
    (
        None,
        "timestamp(6) null",
        &["'1970-01-01 00:00:01.000001'", "'2038-01-19 03:14:07.999999'", "'2024-10-27 01:30:00.5'"],
    ),
    (None, "char(6)", &["''", "'ab'", "'sixsix'", "'tail  '"]),
    (None, "char(6) character set latin1", &["''", "'caf\u{e9}'", "'sixsix'"]),
    (
        None,
        "varchar(40)",
        &[
            "''",
            "'NULL'",
            "'  spaces  '",
            "'tab\\tnewline\\nquote''backslash\\\\ nul\\0'",
            "'\u{e4}\u{f6}\u{fc} \u{2713} \u{1d11e} \u{65e5}'",
        ],
    ),
    (None, "varchar(300)", &["''", "repeat('x', 300)", "'\u{1f600}'"]),
    (None, "tinytext", &["''", "repeat('t', 255)"]),
    (None, "text", &["''", "repeat('text ', 2000)", "'\u{1f600}\u{1f468}\u{200d}\u{1f469}'"]),
    (None, "mediumtext", &["''", "repeat('\u{e4}', 40000)"]),
    (None, "longtext", &["''", "repeat('long', 30000)"]),
    (None, "binary(4)", &["''", "0x00", "0xdeadbeef", "0x20202020", "0xff00"]),
    (None, "varbinary(300)", &["''", "0x00", "0xdeadbeef00ff", "repeat(0x00ff, 150)"]),
    (None, "tinyblob", &["''", "repeat(0xff, 255)"]),
    (None, "blob", &["''", "0x00", "repeat(0x00ff, 20000)"]),
    (None, "mediumblob", &["''", "repeat(0x80, 70000)"]),
    (None, "longblob", &["''", "repeat(0x01, 70000)"]),
    (
        None,
        "enum('sad', 'it''s \"ok\"', '\u{e4}', '', 'a,b')",
        &["'sad'", "'it''s \"ok\"'", "'\u{e4}'", "''", "'no such'", "'a,b'"],
    ),
    (
        None,
        "set('red', 'green', '\u{e9}', 'it''s')",
        &["''", "'red'", "'green,red'", "'it''s,\u{e9},green,red'", "'none,green'"],
    ),
    (None, "set('a','b','c','d','e','f','g','h','i','j','k','l','m','n','o','p','q')", &["'q'", "'a,q,i'", "''"]),
    (None, "point", &["st_geomfromtext('POINT(1.5 -2)')", "st_geomfromtext('POINT(0 0)')"]),
    (
        None,
        "geometry",
        &[
            "st_geomfromtext('POLYGON((0 0,4 0,4 4,0 0))')",
            "st_geomfromtext('LINESTRING(1 2,3 4)', 3857)",
            "st_geomfromtext('POINT(1 2)', 4326)",
        ],
    ),
    (
        MYSQL,
        "json",
        &[
            "'null'",
            "'{\"b\": 1, \"a\" : 2, \"a\": 3, \"\u{e9}\": \"\u{1f600}\"}'",
            "'[1, -1, 1.5, 1e100, 18446744073709551615, -9223372036854775808, true, false, null, \"\"]'",
            "'123456789012345678901234567890'",
            "'\"\\\\u00e9 \\\\\" \\\\n / \\\\\\\\\"'",
            "json_array(cast('2024-02-29 01:02:03.5' as datetime(6)), cast('01:02:03' as time), cast('2024-02-29' as date), cast(1.50 as decimal(5,2)), x'ff00')",
            "concat('[', repeat('{\"key\": [1, 2.5, \"value\"]}, ', 3000), '0]')",
        ],
    ),
    (
        MARIADB,
        "json",
        &[
            "'null'",
            "'{\"b\": 1, \"a\" : 2, \"a\": 3}'",
            "'[1.10,  \"\\\\u00e9\", {}]'",
            "'123456789012345678901234567890.5e10'",
        ],
    ),
    (
        MARIADB,
        "uuid",
        &[
            "'00000000-0000-0000-0000-000000000000'",
            "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
            "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'",
        ],
    ),
    (
        MARIADB,
        "inet6",
        &["'::'", "'2001:db8::1'", "'::ffff:192.0.2.1'", "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'", "'1::'"],
    ),
    (MARIADB, "inet4", &["'0.0.0.0'", "'255.255.255.255'", "'192.0.2.1'"]),
    (MARIADB, "varchar(200) compressed", &["''", "repeat('abc', 60)", "'\u{1f600}'"]),
    (MARIADB, "text compressed character set latin1", &["''", "repeat('\u{e9}t\u{e9} ', 3000)"]),
    (MARIADB, "blob compressed", &["''", "repeat(0x0001, 3000)", "0x00"]),
];

fn types(kind: Kind) -> Vec<&'static (Option<Kind>, &'static str, &'static [&'static str])> {
    TYPES.iter().filter(|(only, ..)| only.is_none_or(|only| only == kind)).collect()
}

/// `create table`, with one column for each type. Columns of NOT NULL come again, where a zero date is allowed.
fn table(kind: Kind, name: &str) -> String {
    let columns = types(kind).into_iter().enumerate().map(|(at, (_, ty, _))| format!("c{at} {ty}"));
    format!(
        "create table {name} (id int primary key, {}, strict_day date not null, strict_at datetime(3) not null, \
         strict_instant timestamp not null default '2024-01-01 00:00:00') charset utf8mb4;",
        columns.collect::<Vec<_>>().join(", ")
    )
}

/// One `insert` a row: row `n` has the n-th value of each type, NULL where a type has no more.
fn rows(kind: Kind, table: &str) -> String {
    let types = types(kind);
    let most = types.iter().map(|(.., values)| values.len()).max().unwrap_or(0);
    let row = |n: usize| {
        let values = types.iter().map(|(.., values)| values.get(n).copied().unwrap_or("null"));
        let zero = ["'0000-00-00'", "'2024-02-29'"][n % 2];
        format!("insert into {table} values ({n}, {}, {zero}, {zero}, {zero});", values.collect::<Vec<_>>().join(", "))
    };
    (0..=most).map(row).collect()
}

/// The values as the server has them, by load, by insert and by update.
fn load_and_stream(server: &Server) -> anyhow::Result<BinlogCase> {
    let kind = server.kind();
    let schema =
        format!("set sql_mode = ''; {}{}{}", table(kind, "loaded"), table(kind, "streamed"), rows(kind, "loaded"));
    let mut case = BinlogCase::on(server, "types", &schema, &["loaded", "streamed"])?;
    case.once_and_same(&["loaded"])?;
    case.sql.run(&rows(kind, "streamed"))?;
    case.sql.run("update loaded set id = id + 100 where id % 2 = 0; update streamed set id = id + 100 where id < 3")?;
    case.once_and_same(&["loaded", "streamed"])?;
    // A table that is read again says the same of the same rows.
    case.reload(&["streamed"])?;
    case.once_and_same(&["loaded", "streamed"])?;
    Ok(case)
}

/// With as little in the log as the server writes by default.
fn values_are_what_the_server_prints(server: &Server) -> anyhow::Result<()> {
    let metadata = server.sql("mysql", "select @@binlog_row_metadata")?;
    ensure!(["MINIMAL", "NO_LOG"].contains(&metadata.trim()), "the log is not small: {metadata}");
    let mut case = load_and_stream(server)?;
    case.same_by_spark(&["loaded", "streamed"])?;
    case.pass()
}

on_every_server!(values_are_what_the_server_prints);

/// With all the log can say of a table, and in another time zone.
fn values_are_the_same_with_full_metadata_elsewhere(kind: Kind, version: &str) -> anyhow::Result<()> {
    let options = Options::default().set("binlog_row_metadata", "FULL").set("default_time_zone", "+08:00");
    let server = Server::start(kind, version, &options)?;
    let mut case = load_and_stream(&server)?;

    // An instant is the same wherever it was written; a datetime is what was written.
    let schema = "create table zones (id int primary key, instant timestamp(3) null, wall datetime(3));
                  set time_zone = '+08:00'; insert into zones values (1, '2024-01-01 08:00:00.5', '2024-01-01 08:00:00.5');
                  set time_zone = '-03:30'; insert into zones values (2, '2024-01-01 08:00:00.5', '2024-01-01 08:00:00.5');";
    case.sql.run(schema)?;
    case.follow(&["loaded", "streamed", "zones"]);
    case.pipeline.once()?;
    case.sql.run(
        "set time_zone = '+08:00'; insert into zones values (11, '2024-01-01 08:00:00.5', '2024-01-01 08:00:00.5');
         set time_zone = '-03:30'; insert into zones values (12, '2024-01-01 08:00:00.5', '2024-01-01 08:00:00.5');
         set time_zone = '+00:00'",
    )?;
    case.once_and_same(&["zones"])?;
    let table = case.lake().table(case.database.name(), "zones")?;
    let found = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, "select * from t order by id")?))?;
    let (east, west) = ("2024-01-01 00:00:00.5+00", "2024-01-01 11:30:00.5+00");
    for (row, (id, instant)) in found.rows.iter().zip([("1", east), ("2", west), ("11", east), ("12", west)]) {
        let expected = [id, instant, "2024-01-01 08:00:00.5"].map(|text| Some(text.to_owned()));
        ensure!(*row == expected, "{row:?} is not {expected:?}");
    }
    case.pass()
}

on_every_version!(values_are_the_same_with_full_metadata_elsewhere);

/// Spark knows no time of day, and no year before the first; so these stand in a table of their own.
fn times_of_day_are_exact(server: &Server) -> anyhow::Result<()> {
    let schema = "
        set sql_mode = '';
        create table loaded (id int primary key, t time(6), t0 time, y datetime(6));
        create table streamed like loaded;
        insert into loaded values (1, '00:00:00', '00:00:00', '0000-01-01 00:00:00'), (2, '23:59:59.999999', '23:59:59', null),
                                  (3, null, null, '0000-12-31 23:59:59.999999'), (4, '12:30:00.5', '12:30:01', null);";
    let mut case = BinlogCase::on(server, "times", schema, &["loaded", "streamed"])?;
    case.once_and_same(&["loaded", "streamed"])?;
    case.sql.run("insert into streamed select * from loaded; update loaded set t = t0 where id = 2")?;
    case.once_and_same(&["loaded", "streamed"])?;
    case.pass()
}

/// A value the lake cannot hold stops its table, named, and no other; mended, the table comes back.
fn an_unrepresentable_value_stops_its_table_only(server: &Server) -> anyhow::Result<()> {
    let bad =
        [("time", "'-838:59:59'"), ("time", "'838:59:59'"), ("time(6)", "'24:00:00'"), ("time(3)", "'-00:00:00.001'")];
    let names: Vec<String> = (0..bad.len()).flat_map(|at| [format!("loaded{at}"), format!("streamed{at}")]).collect();
    let mut schema = "set sql_mode = ''; create table good (id int primary key);
        create table zero_key_loaded (k date primary key, v int); insert into zero_key_loaded values ('0000-00-00', 1);
        create table zero_key_streamed (k date primary key, v int);"
        .to_owned();
    for (at, (kind, value)) in bad.iter().enumerate() {
        schema += &format!(
            "create table loaded{at} (id int primary key, v {kind}); create table streamed{at} like loaded{at};
             insert into loaded{at} values (1, null), (2, {value}); insert into streamed{at} values (1, null);"
        );
    }
    let mut case = BinlogCase::on(server, "unfit", &schema, &["*"])?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    for (at, (_, value)) in bad.iter().enumerate() {
        case.sql.run(&format!("insert into streamed{at} values (2, {value}), (3, null)"))?;
    }
    case.sql.run("insert into good values (1); insert into zero_key_streamed values ('0000-00-00', 1)")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.same(&["good"])?;
    for name in &names {
        case.stopped(name, &["unrepresentable", "v", "reload"])?;
    }
    for name in ["zero_key_loaded", "zero_key_streamed"] {
        case.stopped(name, &["k", "reload"])?;
    }
    for name in &names {
        case.sql.run(&format!("update {name} set v = null"))?;
    }
    case.sql.run("update zero_key_loaded set k = '2024-01-01'; update zero_key_streamed set k = '2024-01-01'")?;
    let mut all: Vec<&str> = names.iter().map(String::as_str).collect();
    all.extend(["zero_key_loaded", "zero_key_streamed"]);
    case.reload(&all)?;
    all.push("good");
    case.once_and_same(&all)?;
    case.pass()
}

fn names_of_types_say_what_readers_see(server: &Server) -> anyhow::Result<()> {
    let columns = [
        ("id int", "id int required"),
        ("t tinyint(1)", "t int"),
        ("mu mediumint unsigned not null", "mu int required"),
        ("iu int unsigned", "iu long"),
        ("b bigint", "b long"),
        ("bu bigint unsigned", "bu decimal(20, 0)"),
        ("f float", "f float"),
        ("d double", "d double"),
        ("n decimal(9,4)", "n decimal(9, 4)"),
        ("u decimal(65,30)", "u string"),
        ("b1 bit(1)", "b1 boolean"),
        ("b8 bit(8)", "b8 long"),
        ("b64 bit(64)", "b64 decimal(20, 0)"),
        ("y year", "y int"),
        ("dt date not null", "dt date"),
        ("ti time", "ti time"),
        ("ts datetime(3) not null", "ts timestamp"),
        ("tz timestamp null", "tz timestamptz"),
        ("c char(3) not null", "c string required"),
        ("e enum('a')", "e string"),
        ("s set('a')", "s string"),
        ("bi binary(3)", "bi binary"),
        ("j json", "j string"),
        ("g geometry", "g binary"),
    ];
    let list = columns.map(|(column, _)| column).join(", ");
    let case = BinlogCase::on(server, "schema", &format!("create table t ({list}, primary key (id))"), &["t"])?;
    case.pipeline.once()?;
    let described = readers::metadata(|reader| Ok(reader.describe(&case.lake().table(case.database.name(), "t")?)?))?;
    let listed = described["columns"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found: Vec<String> = listed
        .iter()
        .map(|column| {
            let required = if column["required"] == true { " required" } else { "" };
            format!("{} {}{required}", column["name"].as_str().unwrap_or(""), column["type"].as_str().unwrap_or(""))
        })
        .collect();
    let expected: Vec<&str> = columns.iter().map(|(_, expected)| *expected).collect();
    ensure!(found == expected, "{found:?} are not {expected:?}");
    case.pass()
}

on_every_server!(
    times_of_day_are_exact,
    an_unrepresentable_value_stops_its_table_only,
    names_of_types_say_what_readers_see
);

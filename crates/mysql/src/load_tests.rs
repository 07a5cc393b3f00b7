//! Loads from real servers: every value as the server itself prints it, every row once, and nobody kept waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use calve_core::{BinlogOffset, BinlogPosition, ColumnBuffer, ColumnType, cell_text};
use calve_testkit::servers::{
    BINLOG_SERVERS, Database, Kind as ServerKind, Options, REPLICATION_USER, Server as TestServer,
};

use mysql_async::{Row, Value};

use super::*;

struct Fixture {
    database: Database,
    connect: ConnectConfig,
    admin: Conn,
    server: Server,
}

/// A cell as MySQL prints it.
fn printed(column: &ColumnBuffer, row: usize) -> Option<String> {
    let text = cell_text(column, row)?;
    Some(match column.column_type() {
        ColumnType::Boolean => u8::from(text == "true").to_string(),
        ColumnType::Binary => text.replacen("\\x", "0x", 1),
        ColumnType::TimestampTz => text.trim_end_matches("+00").to_owned(),
        _ => text,
    })
}

/// A database of its own on a server that tests share.
async fn fixture((kind, version): (ServerKind, &str), label: &str) -> Fixture {
    on(&TestServer::shared(kind, version).unwrap(), label).await
}

async fn on(server: &TestServer, label: &str) -> Fixture {
    let (kind, database) = (server.kind(), server.create_database(label).unwrap());
    let connect = ConnectConfig::parse(&database.url(REPLICATION_USER).unwrap()).unwrap();
    let admin = ConnectConfig::parse(&database.url(kind.superuser()).unwrap()).unwrap();
    let mut admin = connection::open(&admin).await.unwrap();
    let server = Server::read(&mut admin).await.unwrap();
    Fixture { database, connect, admin, server }
}

/// Positions that only tell the two ends apart.
struct Ends;

fn place(offset: u64) -> Position {
    Position::Binlog(BinlogPosition { applied: BinlogOffset::new("binlog.000001", offset), resume: None, created: 0 })
}

#[async_trait]
impl SnapshotPositions for Ends {
    async fn before(&mut self) -> Result<Position> {
        Ok(place(1))
    }

    async fn locked(&mut self) -> Result<Position> {
        Ok(place(3))
    }

    async fn after(&mut self, snapshots: &mut [Conn]) -> Result<Position> {
        assert!(!snapshots.is_empty());
        Ok(place(2))
    }
}

impl Fixture {
    async fn run(&mut self, sql: &str) {
        let version = &self.server.version_text;
        self.admin.query_drop(sql).await.unwrap_or_else(|error| panic!("{version}: {sql}: {error}"));
    }

    fn table(&self, name: &str) -> TableName {
        TableName::new(self.database.name(), name)
    }

    async fn open(&self, tables: &[&str], parallelism: usize, piece_rows: u64) -> SnapshotReader {
        let tables: Vec<TableName> = tables.iter().map(|name| self.table(name)).collect();
        SnapshotReader::open_in_pieces(&self.connect, &self.server, &tables, parallelism, &mut Ends, piece_rows)
            .await
            .unwrap()
    }

    /// MariaDB releases locks early for a user with more rights only.
    fn log_in_as_superuser(&mut self) {
        let (kind, url) = (self.database.server().kind(), |user: &str| self.database.url(user).unwrap());
        if kind == ServerKind::MariaDb {
            self.connect = ConnectConfig::parse(&url(kind.superuser())).unwrap();
        }
    }

    /// What the server prints for a query, as text.
    async fn printed(&mut self, sql: &str) -> Vec<Vec<Option<String>>> {
        let rows: Vec<Row> = self.admin.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let text = |value: Option<Value>| match value {
            Some(Value::Bytes(bytes)) => Some(String::from_utf8(bytes).unwrap()),
            None | Some(Value::NULL) => None,
            Some(other) => panic!("{other:?}"),
        };
        rows.into_iter().map(|row| row.unwrap_raw().into_iter().map(text).collect()).collect()
    }
}

/// The rows of each table, a text for each cell, and the tables that failed.
async fn drain(
    reader: &mut SnapshotReader,
) -> (BTreeMap<String, Vec<Vec<Option<String>>>>, BTreeMap<String, StopReason>) {
    let (mut loaded, mut failed) = (BTreeMap::<String, Vec<Vec<Option<String>>>>::new(), BTreeMap::new());
    let mut done = Vec::new();
    while let Some(event) = reader.next().await.unwrap() {
        match event {
            LoadEvent::Rows(table, rows) => {
                assert!(!done.contains(&table.name), "rows of {table} came after it was done");
                let (ops, images, _) = rows.into_parts();
                assert!(ops.len() <= BUFFER_ROWS);
                let of_table = loaded.entry(table.name).or_default();
                for row in 0..ops.len() {
                    of_table.push(images.iter().map(|column| printed(column, row)).collect());
                }
            }
            LoadEvent::Done(table) => {
                loaded.entry(table.name.clone()).or_default();
                done.push(table.name);
            }
            LoadEvent::Failed(table, reason) => {
                assert!(failed.insert(table.name, reason).is_none());
            }
        }
    }
    (loaded, failed)
}

/// SQL type, the values as SQL, and how the server is asked for its own text of them.
const TYPES: &[(&str, &[&str], &str)] = &[
    ("TINYINT", &["-128", "127"], "v"),
    ("TINYINT(1)", &["0", "1", "7"], "v"),
    ("TINYINT UNSIGNED", &["255"], "v"),
    ("SMALLINT", &["-32768", "32767"], "v"),
    ("MEDIUMINT", &["-8388608", "8388607"], "v"),
    ("MEDIUMINT UNSIGNED", &["16777215"], "v"),
    ("INT", &["-2147483648", "2147483647"], "v"),
    ("INT UNSIGNED", &["4294967295"], "v"),
    ("BIGINT", &["-9223372036854775808", "9223372036854775807"], "v"),
    ("BIGINT UNSIGNED", &["0", "18446744073709551615"], "v"),
    ("DECIMAL(38,10)", &["1.5", "-9999999999999999999999999999.9999999999", "0"], "v"),
    ("DECIMAL(5,0)", &["-12345"], "v"),
    ("DECIMAL(65,30)", &["-99999999999999999999999999999999999.999999999999999999999999999999", "0.5"], "v"),
    ("BIT(1)", &["b'0'", "b'1'"], "v + 0"),
    ("BIT(12)", &["b'101010101010'"], "v + 0"),
    ("BIT(64)", &["b'1111111111111111111111111111111111111111111111111111111111111111'"], "v + 0"),
    ("YEAR", &["0", "1901", "2155"], "v + 0"),
    ("DATE", &["'1000-01-01'", "'9999-12-31'", "'2024-02-29'", "'0001-01-01'"], "v"),
    ("TIME", &["'00:00:00'", "'23:59:59'"], "v"),
    ("TIME(6)", &["'12:34:56.000001'"], "v"),
    ("DATETIME", &["'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'"], "v"),
    ("DATETIME(6)", &["'2024-02-29 12:00:00.000001'"], "v"),
    ("TIMESTAMP NULL", &["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"], "v"),
    ("TIMESTAMP(3) NULL", &["'2024-02-29 12:00:00.123'"], "v"),
    ("CHAR(5)", &["'ab'", "'ab  '", "''"], "v"),
    ("VARCHAR(20)", &["'Grüße 🧊'", "'a  '", "''"], "v"),
    ("TEXT", &["'tab\tline\\nback\\\\slash'"], "v"),
    ("VARCHAR(20) CHARACTER SET latin1", &["'Grüße €'"], "v"),
    ("VARCHAR(20) CHARACTER SET utf16", &["'Grüße 🧊'"], "v"),
    ("CHAR(20) CHARACTER SET ucs2", &["'Grüße '"], "v"),
    ("VARCHAR(20) CHARACTER SET gbk", &["'中文字'"], "v"),
    ("VARCHAR(20) CHARACTER SET sjis", &["'日本ｱ'"], "v"),
    ("VARCHAR(20) CHARACTER SET koi8r", &["'Русский'"], "v"),
    ("ENUM('a','it''s','x,y','é')", &["'a'", "'it''s'", "'x,y'", "'é'"], "v"),
    ("ENUM('ö','ä') CHARACTER SET latin1", &["'ö'", "'ä'"], "v"),
    ("SET('a','b c','d')", &["''", "'a,d'", "'b c'"], "v"),
    ("BINARY(3)", &["'a'", "X'00FF00'"], "CONCAT('0x', LOWER(HEX(v)))"),
    ("VARBINARY(3)", &["'a'", "''"], "CONCAT('0x', LOWER(HEX(v)))"),
    ("BLOB", &["X'00FF5C'"], "CONCAT('0x', LOWER(HEX(v)))"),
    ("JSON", &["'{\"b\": 1, \"a\": [1.0, null, \"ü\"]}'"], "v"),
    ("POINT", &["ST_GeomFromText('POINT(1 2)')"], "CONCAT('0x', LOWER(HEX(ST_AsWKB(v))))"),
    // Zero dates are NULL in the lake.
    ("DATE", &["'0000-00-00'", "'2024-00-00'"], "NULL"),
    ("DATETIME", &["'0000-00-00 00:00:00'"], "NULL"),
    ("TIMESTAMP NULL", &["'0000-00-00 00:00:00'"], "NULL"),
];
const MARIADB_TYPES: &[(&str, &[&str], &str)] = &[
    ("UUID", &["'123e4567-e89b-12d3-a456-426614174000'", "'00000000-0000-0000-0000-000000000000'"], "v"),
    ("INET4", &["'1.2.3.4'"], "v"),
    ("INET6", &["'::1'", "'2001:db8::ff00:42:8329'"], "v"),
    ("TEXT COMPRESSED", &["REPEAT('Grüße', 1000)"], "v"),
    ("VARCHAR(200) COMPRESSED", &["REPEAT('x', 200)"], "v"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_value_is_what_the_server_prints() {
    for of in BINLOG_SERVERS {
        let mut fixture = fixture(of, "values").await;
        let more = if fixture.server.flavour == Flavour::MariaDb { MARIADB_TYPES } else { &[] };
        let types: Vec<_> = TYPES.iter().chain(more).collect();
        let names: Vec<String> = (0..types.len()).map(|at| format!("t{at:02}")).collect();
        for ((ty, values, _), name) in types.iter().zip(&names) {
            fixture.run(&format!("CREATE TABLE {name} (id INT PRIMARY KEY, v {ty})")).await;
            for (id, value) in values.iter().chain(&["NULL"]).enumerate() {
                fixture.run(&format!("INSERT INTO {name} VALUES ({id}, {value})")).await;
            }
        }
        let tables: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut reader = fixture.open(&tables, 3, PIECE_ROWS).await;
        assert_eq!((reader.position(), reader.settled()), (&place(1), &place(2)));
        let (loaded, failed) = drain(&mut reader).await;
        assert_eq!(failed, BTreeMap::new(), "{of:?}");
        for ((ty, _, text), name) in types.iter().zip(&names) {
            let printed = fixture.printed(&format!("SELECT id, CAST({text} AS CHAR) FROM {name} ORDER BY id")).await;
            let mut found = loaded[name].clone();
            found.sort_by_key(|row| row[0].clone());
            let short = |rows: &[Vec<Option<String>>]| -> Vec<Option<String>> {
                // The lake keeps fractions of seconds without the zeros at their end.
                let fraction = |text: &String| {
                    if ty.contains("(3)") || ty.contains("(6)") {
                        text.trim_end_matches('0').into()
                    } else {
                        text.clone()
                    }
                };
                rows.iter().map(|row| row[1].as_ref().map(fraction)).collect()
            };
            assert_eq!(short(&found), short(&printed), "{of:?} {ty}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn floats_keep_their_bits() {
    for of in BINLOG_SERVERS {
        let mut fixture = fixture(of, "floats").await;
        fixture.run("CREATE TABLE f (id INT PRIMARY KEY, f FLOAT, d DOUBLE)").await;
        fixture
            .run("INSERT INTO f VALUES (1, 0.1, 0.1), (2, -0.0, 5e-324), (3, 3.4028235e38, 0.30000000000000004)")
            .await;
        let (loaded, _) = drain(&mut fixture.open(&["f"], 1, PIECE_ROWS).await).await;
        let found: Vec<(f32, f64)> = loaded["f"]
            .iter()
            .map(|row| (row[1].as_ref().unwrap().parse().unwrap(), row[2].as_ref().unwrap().parse().unwrap()))
            .collect();
        assert_eq!(found, [(0.1, 0.1), (0.0, 5e-324), (f32::MAX, 0.300_000_000_000_000_04)], "{of:?}");
    }
}

/// Definition, key columns as they are selected, and how 600 rows are filled in from `n` = 0 to 599.
const KEYS: &[(&str, &str, &str)] = &[
    ("id INT, PRIMARY KEY (id)", "id", "n * 3 - 900"),
    ("id BIGINT UNSIGNED, PRIMARY KEY (id)", "id", "18446744073709551615 - n * 2"),
    ("id BIGINT, PRIMARY KEY (id)", "id", "IF(n = 0, -9223372036854775808, 9223372036854775207 + n)"),
    ("id SMALLINT, PRIMARY KEY (id DESC)", "id", "n - 300"),
    ("a INT, b INT, PRIMARY KEY (b, a)", "a, b", "n DIV 7, n MOD 7"),
    ("a INT, b VARCHAR(9), PRIMARY KEY (a, b DESC)", "a, b", "n DIV 50, CONCAT('k', n)"),
    // Equal texts by the collation, but not within one key: pieces must not fall between them.
    (
        "s VARCHAR(20), n INT, PRIMARY KEY (s, n)",
        "s, n",
        "IF(n MOD 2, CONCAT('key ', n DIV 100), CONCAT('KEY ', n DIV 100, '  ')), n",
    ),
    (
        "s VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci, n INT, PRIMARY KEY (s, n)",
        "s, n",
        "CONCAT(ELT(n MOD 3 + 1, 'ß', 'ss', 'SZ'), n DIV 9), n",
    ),
    ("s VARCHAR(20) CHARACTER SET utf16, PRIMARY KEY (s)", "s", "CONCAT('é🧊', n)"),
    ("s CHAR(9) CHARACTER SET gbk, PRIMARY KEY (s)", "s", "CONCAT('中', n)"),
    ("s CHAR(9) COLLATE utf8mb4_bin, PRIMARY KEY (s)", "s", "CONCAT(IF(n MOD 2, 'a', 'A'), n)"),
    ("s TEXT, PRIMARY KEY (s(5))", "s", "LPAD(n, 5, '0')"),
    ("b BINARY(4), PRIMARY KEY (b)", "CONCAT('0x', LOWER(HEX(b)))", "UNHEX(LPAD(HEX(n * 7), 8, '0'))"),
    ("b VARBINARY(9), PRIMARY KEY (b)", "CONCAT('0x', LOWER(HEX(b)))", "CONCAT(X'5C27', n)"),
    ("d DECIMAL(20,3), PRIMARY KEY (d)", "d", "n / 8 - 20"),
    ("d DATE, PRIMARY KEY (d)", "d", "DATE_ADD('2024-01-01', INTERVAL n DAY)"),
    ("d DATETIME(6), PRIMARY KEY (d)", "d", "DATE_ADD('2024-01-01 00:00:00.000009', INTERVAL n * 1000001 MICROSECOND)"),
    ("d TIMESTAMP, PRIMARY KEY (d)", "d", "DATE_ADD('2024-01-01', INTERVAL n SECOND)"),
    ("d TIME(2), PRIMARY KEY (d)", "d", "SEC_TO_TIME(n * 1.25)"),
    ("b BIT(20), PRIMARY KEY (b)", "b + 0", "n * 5"),
    ("e ENUM('z','y','x'), n INT, PRIMARY KEY (e, n)", "e, n", "n MOD 3 + 1, n"),
    ("n INT, e SET('z','y','x'), PRIMARY KEY (n, e)", "n, e", "n, n MOD 8"),
];

impl Fixture {
    /// The tables of [`KEYS`], 600 rows each, with statistics, which decide whether integers are divided or looked for.
    async fn make_keyed_tables(&mut self) -> Vec<String> {
        let fixture = self;
        fixture.run("CREATE TABLE numbers (n INT PRIMARY KEY)").await;
        let numbers: Vec<String> = (0..600).map(|n| format!("({n})")).collect();
        fixture.run(&format!("INSERT INTO numbers VALUES {}", numbers.join(","))).await;
        let names: Vec<String> = (0..KEYS.len()).map(|at| format!("k{at:02}")).collect();
        for ((definition, _, values), name) in KEYS.iter().zip(&names) {
            fixture.run(&format!("CREATE TABLE {name} ({definition})")).await;
            fixture.run(&format!("INSERT INTO {name} SELECT {values} FROM numbers")).await;
        }
        fixture.run(&format!("ANALYZE TABLE {}", names.join(", "))).await;
        names
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_are_read_along_the_key() {
    for of in BINLOG_SERVERS {
        let mut fixture = fixture(of, "explained").await;
        for (name, (definition, ..)) in fixture.make_keyed_tables().await.iter().zip(KEYS) {
            let name = fixture.table(name);
            let found = catalog::read(&mut fixture.admin, &name).await.unwrap();
            let table = LoadTable::of(&fixture.server, &name, found, 100).unwrap();
            let (mut ranges, mut from) = (Vec::new(), None);
            loop {
                let (more, rest) = table.cutter.cut(&mut fixture.admin, from).await.unwrap();
                ranges.extend(more);
                from = rest;
                if from.is_none() {
                    break;
                }
            }
            let whole = definition.starts_with("s TEXT") || definition.starts_with("e ENUM");
            assert_eq!(ranges.len() > 4, !whole, "{of:?} {definition}: {ranges:?}");
            for range in ranges.iter().filter(|range| range.from.is_some() && range.to.is_some()) {
                let plan = fixture.printed(&format!("EXPLAIN FORMAT=JSON {}", table.select(range))).await;
                let plan = plan[0][0].as_deref().unwrap_or_default();
                // MySQL 9 and MariaDB say it in different words.
                let range_scan = plan.contains("index_range_scan") || plan.contains("\"access_type\": \"range\"");
                assert!(range_scan, "{of:?} {definition}: {plan}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_comes_once_whatever_the_key() {
    for of in BINLOG_SERVERS {
        let mut fixture = fixture(of, "keys").await;
        let names = fixture.make_keyed_tables().await;
        let tables: Vec<&str> = names.iter().map(String::as_str).collect();
        for piece_rows in [1, 7, 100, 1000] {
            let (loaded, failed) = drain(&mut fixture.open(&tables, 3, piece_rows).await).await;
            assert_eq!(failed, BTreeMap::new(), "{of:?}");
            for ((definition, selected, _), name) in KEYS.iter().zip(&names) {
                let mut printed = fixture.printed(&format!("SELECT {selected} FROM {name}")).await;
                let mut found = loaded[name].clone();
                let trim = |rows: &mut Vec<Vec<Option<String>>>| {
                    for text in
                        rows.iter_mut().flatten().flatten().filter(|text| text.contains(':') && text.contains('.'))
                    {
                        *text = text.trim_end_matches('0').trim_end_matches('.').to_owned();
                    }
                    rows.sort();
                };
                trim(&mut printed);
                trim(&mut found);
                assert_eq!(printed.len(), 600, "{definition}");
                assert_eq!(found, printed, "{of:?} {definition}, {piece_rows} rows a piece");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_does_not_fit_stops_its_table_only() {
    for of in BINLOG_SERVERS {
        let mut fixture = fixture(of, "faults").await;
        for (name, definition, values) in [
            ("good", "id INT PRIMARY KEY", "(1), (2)"),
            ("late", "id INT PRIMARY KEY, t TIME", "(1, '10:00:00'), (2, '24:00:00')"),
            ("negative", "id INT PRIMARY KEY, t TIME", "(1, '-838:59:59')"),
            ("zero", "d DATE PRIMARY KEY", "('0000-00-00')"),
            ("nokey", "id INT", "(1)"),
            ("float", "f FLOAT PRIMARY KEY", "(1)"),
        ] {
            fixture.run(&format!("CREATE TABLE `{name}` ({definition})")).await;
            fixture.run(&format!("INSERT INTO `{name}` VALUES {values}")).await;
        }
        let tables = ["good", "late", "negative", "zero", "nokey", "float", "absent"];
        let mut reader = fixture.open(&tables, 2, 1).await;
        assert!(reader.refusal(&fixture.table("nokey")).is_some());
        assert_eq!(reader.schema(&fixture.table("good")).unwrap().columns[0].ty, ColumnType::Int);
        let (loaded, failed) = drain(&mut reader).await;
        assert_eq!(loaded["good"].len(), 2, "{of:?}");
        for (name, state, expected) in [
            ("late", "unrepresentable value", "column `t` of the row with id = 2 holds a TIME of 24:00:00"),
            ("negative", "unrepresentable value", "a negative TIME"),
            ("zero", "unrepresentable value", "a zero date"),
            ("nokey", "schema changed", "no primary key"),
            ("float", "schema changed", "floating-point"),
            ("absent", "dropped", "does not exist"),
        ] {
            let reason = &failed[name];
            assert!(reason.state == state && reason.detail.contains(expected), "{of:?} {name}: {reason}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alter_waits_for_a_piece_and_not_for_the_load() {
    for of in BINLOG_SERVERS {
        let mut fixture = fixture(of, "locks").await;
        fixture.log_in_as_superuser();
        fixture.run("CREATE TABLE a (id INT PRIMARY KEY)").await;
        fixture.run("CREATE TABLE b (id INT PRIMARY KEY)").await;
        fixture.run("INSERT INTO a VALUES (1), (2), (3)").await;
        fixture.run("INSERT INTO b VALUES (1), (2), (3)").await;
        let mut reader = fixture.open(&["a", "b"], 1, 1000).await;
        // All that is known of the tables was read, and nothing of a load that nobody asks for goes on for ever.
        let first = reader.next().await.unwrap();
        assert!(matches!(first, Some(LoadEvent::Rows(..))), "{of:?}");
        fixture.run("SET SESSION lock_wait_timeout = 5").await;
        let altered = tokio::time::timeout(Duration::from_secs(10), async {
            fixture.run("ALTER TABLE a ADD COLUMN v INT, ALGORITHM=COPY").await;
            fixture.run("INSERT INTO a (id) VALUES (4)").await;
        });
        altered.await.unwrap_or_else(|_| panic!("{of:?}: the load kept an ALTER waiting"));
        let (loaded, _) = drain(&mut reader).await;
        assert_eq!(loaded["b"].len(), 3, "{of:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_altered_before_it_is_read_is_read_again() {
    for of in BINLOG_SERVERS {
        let mut fixture = fixture(of, "altered").await;
        fixture.log_in_as_superuser();
        fixture.run("CREATE TABLE a (id INT PRIMARY KEY)").await;
        let rows: Vec<String> = (0..60_000).map(|id| format!("({id})")).collect();
        fixture.run(&format!("INSERT INTO a VALUES {}", rows.join(","))).await;
        fixture.run("ANALYZE TABLE a").await;
        let mut reader = fixture.open(&["a"], 1, 1000).await;
        assert!(matches!(reader.next().await.unwrap(), Some(LoadEvent::Rows(..))));
        fixture.run("ALTER TABLE a ADD COLUMN v INT, ALGORITHM=COPY").await;
        let error = loop {
            match reader.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{of:?}: the table was read to its end"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Retry, "{of:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_reader_ends_its_connections() {
    for of in BINLOG_SERVERS {
        let mut fixture = fixture(of, "dropped").await;
        fixture.run("CREATE TABLE a (id INT PRIMARY KEY, t TEXT)").await;
        let rows: Vec<String> = (0..20_000).map(|id| format!("({id}, REPEAT('x', 500))")).collect();
        fixture.run(&format!("INSERT INTO a VALUES {}", rows.join(","))).await;
        let mut reader = fixture.open(&["a"], 3, 5000).await;
        assert!(matches!(reader.next().await.unwrap(), Some(LoadEvent::Rows(..))));
        drop(reader);
        let database = fixture.database.name().to_owned();
        let count = format!(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = '{database}' AND ID <> CONNECTION_ID()"
        );
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        // MySQL fails to show a list that has another session's emoji in it.
        while !matches!(fixture.admin.query_first(&count).await, Ok(Some(0_u64))) {
            assert!(tokio::time::Instant::now() < deadline, "{of:?}: connections are left");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_larger_than_a_buffer_are_loaded() {
    for (kind, version) in BINLOG_SERVERS {
        let options = Options::default().set("max_allowed_packet", "1073741824").set("innodb_redo_log_capacity", "1G");
        let options = if kind == ServerKind::MySql {
            options
        } else {
            Options::default().set("max_allowed_packet", "1073741824").set("innodb_log_file_size", "1G")
        };
        let server = TestServer::start(kind, version, &options).unwrap();
        let mut fixture = on(&server, "large").await;
        fixture.run("CREATE TABLE a (id INT PRIMARY KEY, b LONGBLOB)").await;
        for id in 0..3 {
            fixture.run(&format!("INSERT INTO a VALUES ({id}, REPEAT('x', 40 * 1024 * 1024))")).await;
        }
        let mut reader = fixture.open(&["a"], 1, PIECE_ROWS).await;
        let mut rows = Vec::new();
        while let Some(event) = reader.next().await.unwrap() {
            if let LoadEvent::Rows(_, buffer) = event {
                rows.push((buffer.len(), buffer.bytes() >> 20));
            }
        }
        assert_eq!(rows, [(1, 40), (1, 40), (1, 40)], "{version}");
    }
}

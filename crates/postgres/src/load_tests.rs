//! Loads from real servers: every value as the stream would bring it, every row once, nothing that came after the snapshot.

use std::collections::BTreeMap;

use calve_core::{ColumnBuffer, ColumnType, Lsn, Values};
use calve_testkit::servers::{Database, Postgres};
use tokio_postgres::SimpleQueryMessage;

use super::*;
use crate::column_kind::{ColumnKind, binary_safe};
use calve_core::cell_text;

struct Fixture {
    database: Database,
    connect: ConnectConfig,
    client: Client,
    rules: ValueRules,
}

async fn fixture(version: u32, label: &str) -> Fixture {
    let database = Postgres::shared(version).unwrap().create_database(label).unwrap();
    let connect = ConnectConfig::parse(&database.url("postgres").unwrap()).unwrap();
    let client = connect.connect_sql().await.unwrap();
    Fixture { database, connect, client, rules: ValueRules::default() }
}

impl Fixture {
    async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// A snapshot, and the connection that keeps it.
    async fn snapshot(&self) -> (Client, String) {
        let holder = self.connect.connect_sql().await.unwrap();
        holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
        let name: String = holder.query_one("SELECT pg_export_snapshot()", &[]).await.unwrap().get(0);
        (holder, name)
    }

    async fn open(&self, snapshot: &str, tables: &[&str], parallelism: usize) -> Result<SnapshotReader> {
        let tables: Vec<TableName> = tables.iter().map(|name| TableName::new("public", *name)).collect();
        SnapshotReader::open(&self.connect, snapshot, Position::Postgres(Lsn(7)), &tables, parallelism, &self.rules)
            .await
    }

    /// All rows of the tables, in the order of arrival.
    async fn load(&self, tables: &[&str], parallelism: usize) -> Result<BTreeMap<String, Vec<RowBuffer>>> {
        let (_holder, snapshot) = self.snapshot().await;
        let mut reader = self.open(&snapshot, tables, parallelism).await?;
        drain(&mut reader).await
    }
}

async fn drain(reader: &mut SnapshotReader) -> Result<BTreeMap<String, Vec<RowBuffer>>> {
    let mut loaded: BTreeMap<String, Vec<RowBuffer>> = BTreeMap::new();
    let mut done = Vec::new();
    let refused = reader.refused.len();
    assert_eq!(refused, 0, "refused: {:?}", reader.refused);
    while let Some(event) = reader.next().await? {
        match event {
            LoadEvent::Rows(table, rows) => {
                assert!(!done.contains(&table.name), "rows of {table} came after it was done");
                loaded.entry(table.name).or_default().push(rows);
            }
            LoadEvent::Failed(table, reason) => panic!("{table} failed: {reason}"),
            LoadEvent::Done(table) => {
                assert!(!done.contains(&table.name), "{table} was done twice");
                loaded.entry(table.name.clone()).or_default();
                done.push(table.name);
            }
        }
    }
    assert_eq!(done.len(), loaded.len(), "a table was not done");
    Ok(loaded)
}

/// The cells of a column, each by the bits it holds.
fn cells(column: &ColumnBuffer) -> Vec<Option<Vec<u8>>> {
    (0..column.len())
        .map(|row| {
            if column.is_null(row) {
                return None;
            }
            let mut bytes = Vec::new();
            match column.values() {
                Values::List { offsets, elements } => {
                    let place = |at: usize| usize::try_from(offsets[at]).unwrap();
                    bytes = format!("{:?}", &cells(elements)[place(row)..place(row + 1)]).into_bytes();
                }
                _ => calve_core::encode_key(std::iter::once(column), row, &mut bytes),
            }
            Some(bytes)
        })
        .collect()
}

/// SQL type, values. NULL is added to each.
const TYPES: &[(&str, &[&str])] = &[
    ("boolean", &["true", "false"]),
    ("smallint", &["-32768", "32767"]),
    ("integer", &["-2147483648", "2147483647"]),
    ("bigint", &["-9223372036854775808", "9223372036854775807"]),
    ("oid", &["0", "4294967295"]),
    ("real", &["0.1", "NaN", "-Infinity", "-0", "1e-45"]),
    ("float8", &["0.1", "NaN", "Infinity", "-0", "5e-324", "0.30000000000000004"]),
    ("numeric(38,10)", &["1.5", "-9999999999999999999999999999.9999999999", "0.0000000001"]),
    ("numeric(1000,3)", &["1.5", "1e200", "NaN"]),
    ("numeric(5,-2)", &["12345", "-99"]),
    ("numeric", &["1e40", "1.10", "-0.00001", "NaN", "Infinity", "1234567890.0987654321"]),
    ("date", &["0044-03-15 BC", "9999-12-31", "2024-02-29"]),
    ("time", &["23:59:59.999999", "00:00"]),
    ("time(0)", &["12:34:56"]),
    ("timestamp", &["2024-02-29 12:00:00.000001", "4713-01-01 00:00 BC"]),
    ("timestamptz", &["2024-02-29 12:00:00.5+05:30", "0001-01-01 00:00+00 BC"]),
    ("timetz", &["12:00:00.5+05:30", "24:00:00-08", "01:02:03+00"]),
    ("interval", &["1 year -2 days 3:04:05.678", "0", "-1 month"]),
    ("text", &["", "Grüße 🧊", "a\tb\nc\\d", "NULL"]),
    ("varchar(10)", &["abc ", ""]),
    ("char(5)", &["ab", ""]),
    ("name", &["a name"]),
    ("\"char\"", &["x", ""]),
    ("citizen", &["ab", "long enough"]),
    ("mood", &["happy", "so-so, \"really\""]),
    ("cents", &["12.34"]),
    ("deep", &["7"]),
    ("uuid", &["123e4567-e89b-12d3-a456-426614174000"]),
    ("json", &["{\"b\":1,  \"a\":1e400}"]),
    ("jsonb", &["{\"b\":1,  \"a\":1.10}", "null"]),
    ("bytea", &["", "\\x00ff5c0a"]),
    ("xml", &["<?xml version=\"1.0\" encoding=\"latin1\"?><a/>", "<b>ü</b>"]),
    ("inet", &["192.168.0.1", "::1/64"]),
    ("cidr", &["10.0.0.0/8"]),
    ("macaddr", &["08:00:2b:01:02:03"]),
    ("bit(3)", &["101"]),
    ("varbit", &["", "1"]),
    ("money", &["-1234.5"]),
    ("int4range", &["[1,5)", "empty"]),
    ("int4[]", &["{}", "{1,NULL,3}"]),
    ("numeric(5,2)[]", &["{1.50,NULL}"]),
    ("timestamptz[]", &["{\"2024-02-29 12:00:00.5+05:30\"}"]),
    ("bytea[]", &["{\"\\\\x00ff\",\"\"}"]),
    ("deep[]", &["{7,NULL}"]),
    ("mood[]", &["{happy,NULL,\"so-so, \\\"really\\\"\"}"]),
    ("inet[]", &["{192.168.0.1,::1/64}"]),
    ("pair[]", &["{\"(3,\\\"x y\\\")\"}"]),
    ("text[]", &["{\"a,b\",\"\",NULL,\"c\\\"d\"}"]),
    ("point", &["(0.1,-2)"]),
    ("tsvector", &["a:1 fat:2A cat"]),
    ("pg_lsn", &["16/B374D848"]),
    ("pair", &["(1,)", "(,)", "(3,\"x y\")"]),
    ("regclass", &["public.carrier", "pg_class"]),
    ("xid", &["4294967295"]),
];

const TYPE_SETUP: &str = "CREATE DOMAIN citizen AS text CHECK (value <> 'x'); CREATE TYPE mood AS ENUM ('happy', 'so-so, \"really\"'); \
    CREATE DOMAIN cents AS numeric(10,2); CREATE DOMAIN shallow AS integer; CREATE DOMAIN deep AS shallow; \
    CREATE TYPE pair AS (a integer, b text); CREATE TABLE carrier (id integer PRIMARY KEY);";

/// Every type through a load and through the text form that the stream can bring: the same bits; and where the lake keeps
/// text, the text that the server prints.
async fn types_arrive_alike(version: u32) {
    let fixture = fixture(version, "types").await;
    // Names in the session of the load are found in pg_catalog only, as in the stream's.
    fixture.run(&format!("SET search_path = public, pg_catalog; {TYPE_SETUP}")).await;
    let mut names = Vec::new();
    for (index, (ty, values)) in TYPES.iter().enumerate() {
        let name = format!("t{index}");
        fixture.run(&format!("CREATE TABLE {name} (id serial PRIMARY KEY, v {ty})")).await;
        for value in *values {
            fixture.run(&format!("INSERT INTO {name} (v) VALUES ({}::{ty})", literal(value))).await;
        }
        fixture.run(&format!("INSERT INTO {name} (v) VALUES (NULL)")).await;
        names.push(name);
    }
    let tables: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut loaded = fixture.load(&tables, 3).await.unwrap();
    let plain = fixture.connect.connect_sql().await.unwrap();
    for (name, (ty, values)) in names.iter().zip(TYPES) {
        let [buffer] = <[RowBuffer; 1]>::try_from(loaded.remove(name).unwrap()).unwrap();
        let schema = Arc::clone(buffer.schema());
        let (ops, images, _) = buffer.into_parts();
        assert_eq!(ops.len(), values.len() + 1, "rows of {ty}");
        let mut expected = ColumnBuffer::new(schema.columns[1].ty.clone());
        let kind = ColumnKind::plan(&schema.columns[1]);
        let mut printed = Vec::new();
        for message in plain.simple_query(&format!("SELECT v FROM public.{name} ORDER BY id")).await.unwrap() {
            let SimpleQueryMessage::Row(row) = message else { continue };
            printed.push(row.get(0).map(str::to_owned));
            match row.get(0) {
                Some(text) => kind.text(text.as_bytes(), &mut expected).unwrap(),
                None => expected.push_null(),
            }
        }
        assert_eq!(printed.len(), ops.len());
        assert_eq!(cells(&images[1]), cells(&expected), "{ty}: the load and the text form differ; {printed:?}");
        if schema.columns[1].ty == ColumnType::String {
            let kept: Vec<_> = (0..ops.len()).map(|row| cell_text(&images[1], row)).collect();
            assert_eq!(kept, printed, "{ty} is not kept as the server prints it");
        } else if !matches!(schema.columns[1].ty, ColumnType::Boolean | ColumnType::Float | ColumnType::Double) {
            // What calve calls a value, the server reads back as the same.
            for (row, printed) in printed.iter().enumerate() {
                assert_eq!(cell_text(&images[1], row), *printed, "{ty} is printed differently");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn types_arrive_alike_from_15() {
    types_arrive_alike(15).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn types_arrive_alike_from_17() {
    types_arrive_alike(17).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn types_arrive_alike_from_18() {
    types_arrive_alike(18).await;
}

/// Random values of every type with a plan of its own, made by the server, in both of its forms side by side.
#[tokio::test(flavor = "multi_thread")]
async fn random_values_arrive_alike() {
    let fixture = fixture(17, "random").await;
    let columns = [
        ("i2", "smallint", "(random() * 65535 - 32768)::int2"),
        ("i4", "integer", "(random() * 4294967295 - 2147483648)::int8::int4"),
        ("i8", "bigint", "(random() * 1.8e19 - 9e18)::numeric::int8"),
        ("f4", "real", "((random() - 0.5) * 10 ^ (random() * 70 - 37))::float4"),
        ("f8", "float8", "(random() - 0.5) * 10 ^ (random() * 500 - 250)"),
        ("d1", "numeric(12,4)", "((random() - 0.5) * 10 ^ (random() * 8))::numeric(12,4)"),
        ("d2", "numeric(38,20)", "((random() - 0.5)::numeric * 10::numeric ^ (random() * 18)::int)::numeric(38,20)"),
        ("n", "numeric", "(random() - 0.5)::numeric * 10::numeric ^ (random() * 80 - 40)::int"),
        ("d", "date", "date '0001-01-01' + (random() * 4000000 - 500000)::int"),
        ("t", "time", "time '00:00' + random() * interval '24 hours'"),
        ("ts", "timestamp", "timestamp '0001-01-01' + random() * interval '9000 years'"),
        ("tz", "timestamptz", "timestamptz '4000-01-01 BC' + random() * interval '9000 years'"),
        ("u", "uuid", "gen_random_uuid()"),
        ("b", "bytea", "substr(decode(md5(random()::text) || md5(random()::text), 'hex'), 1, (random() * 32)::int)"),
    ];
    let list = |part: fn(&(&str, &str, &str)) -> String| columns.iter().map(part).collect::<Vec<_>>().join(", ");
    fixture
        .run(&format!(
            "CREATE TABLE public.r (id integer PRIMARY KEY, {}); \
             SELECT setseed(0.25); INSERT INTO public.r SELECT i, {} FROM generate_series(1, 5000) i",
            list(|(name, ty, _)| format!("{name} {ty}")),
            list(|(_, _, value)| (*value).to_owned()),
        ))
        .await;
    let loaded = fixture.load(&["r"], 1).await.unwrap().remove("r").unwrap();
    let [buffer] = <[RowBuffer; 1]>::try_from(loaded).unwrap();
    let schema = Arc::clone(buffer.schema());
    let mut expected = RowBuffer::new(Arc::clone(&schema));
    assert!(schema.columns.iter().all(binary_safe));
    for message in fixture.client.simple_query("SELECT * FROM public.r ORDER BY ctid").await.unwrap() {
        let SimpleQueryMessage::Row(row) = message else { continue };
        for (index, column) in schema.columns.iter().enumerate() {
            let text = row.get(index).unwrap();
            ColumnKind::plan(column).text(text.as_bytes(), expected.image(index)).unwrap();
        }
        expected.finish_row(calve_core::RowOp::Insert);
    }
    assert_eq!(expected.len(), 5000);
    let ((_, got, _), (_, wanted, _)) = (buffer.into_parts(), expected.into_parts());
    for (index, column) in schema.columns.iter().enumerate() {
        for (row, (got, wanted)) in cells(&got[index]).iter().zip(cells(&wanted[index])).enumerate() {
            assert_eq!(*got, wanted, "column {}, row {row}", column.name);
        }
    }
}

fn ids(buffers: &[RowBuffer]) -> Vec<i64> {
    let mut ids = Vec::new();
    for buffer in buffers {
        assert!(buffer.ops().iter().all(|op| *op == calve_core::RowOp::Insert));
    }
    for buffer in buffers {
        let mut key = Vec::new();
        for row in 0..buffer.len() {
            key.clear();
            buffer.encode_image_key(row, &mut key);
            ids.push(i64::from_le_bytes(key[4..].try_into().unwrap()));
        }
    }
    ids.sort_unstable();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_table_comes_whole_in_pieces_and_nothing_later_with_it() {
    let fixture = fixture(17, "pieces").await;
    // About 3,400 pages: more than one piece.
    fixture
        .run(
            "CREATE TABLE public.big (id bigint PRIMARY KEY, pad text); \
             INSERT INTO public.big SELECT i, repeat('x', 200) FROM generate_series(1, 120000) i; \
             DELETE FROM public.big WHERE id % 10 = 0; ANALYZE public.big; \
             CREATE TABLE public.empty (id bigint PRIMARY KEY); CREATE TABLE public.child () INHERITS (public.empty); \
             INSERT INTO public.child VALUES (1)",
        )
        .await;
    let (holder, snapshot) = fixture.snapshot().await;
    fixture
        .run("UPDATE public.big SET pad = 'later' WHERE id <= 50000; INSERT INTO public.big VALUES (200000, '')")
        .await;
    let mut reader = fixture.open(&snapshot, &["big", "empty"], 4).await.unwrap();
    // The snapshot is with the reader now.
    drop(holder);
    fixture.run("DELETE FROM public.big").await;
    let big = TableName::new("public", "big");
    let pieces = reader.tables.get(&big).unwrap().pieces_left;
    assert!(pieces > 1, "{pieces} piece");
    assert_eq!(*reader.position(), Position::Postgres(Lsn(7)));
    assert!(reader.estimated_rows(&big).unwrap() > 100_000);
    assert_eq!(reader.schema(&big).unwrap().table, big);
    let loaded = drain(&mut reader).await.unwrap();
    let expected: Vec<i64> = (1..=120_000).filter(|id| id % 10 != 0).collect();
    assert!(ids(&loaded["big"]) == expected, "rows are missing or came twice");
    assert!(loaded["big"].iter().all(|rows| rows.len() <= BUFFER_ROWS));
    for rows in &loaded["big"] {
        assert!(rows.bytes() < 2 * BUFFER_BYTES);
    }
    assert_eq!(ids(&loaded["empty"]), [0_i64; 0]);
    assert!(reader.next().await.unwrap().is_none());
    drop(fixture.database);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partitioned_table_is_one_table() {
    let fixture = fixture(17, "partitions").await;
    fixture
        .run(
            "CREATE TABLE public.p (id bigint, region text, PRIMARY KEY (id)) PARTITION BY RANGE (id); \
             CREATE TABLE public.p1 PARTITION OF public.p FOR VALUES FROM (0) TO (100); \
             CREATE TABLE public.p2 (region text, id bigint NOT NULL, PRIMARY KEY (id)); \
             ALTER TABLE public.p ATTACH PARTITION public.p2 FOR VALUES FROM (100) TO (200) ; \
             INSERT INTO public.p SELECT i, 'r' || i FROM generate_series(0, 199) i; \
             CREATE TABLE public.bare (id bigint PRIMARY KEY) PARTITION BY RANGE (id); \
             GRANT SELECT ON public.p, public.p1 TO calve; GRANT USAGE ON SCHEMA public TO calve",
        )
        .await;
    let loaded = fixture.load(&["p", "bare"], 2).await.unwrap();
    assert_eq!(ids(&loaded["p"]), (0..200).collect::<Vec<_>>());
    assert_eq!(loaded["bare"].len(), 0);
    // Without rights on one of the partitions, through the parent.
    let connect = ConnectConfig::parse(&fixture.database.url("calve").unwrap()).unwrap();
    let (_holder, snapshot) = fixture.snapshot().await;
    let tables = [TableName::new("public", "p")];
    let mut reader =
        SnapshotReader::open(&connect, &snapshot, Position::Postgres(Lsn(7)), &tables, 2, &ValueRules::default())
            .await
            .unwrap();
    assert_eq!(ids(&drain(&mut reader).await.unwrap()["p"]), (0..200).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_tear_the_snapshot_is_noticed() {
    let fixture = fixture(17, "torn").await;
    fixture.run("CREATE TABLE public.t (id bigint PRIMARY KEY); INSERT INTO public.t VALUES (1)").await;
    for change in [
        "TRUNCATE public.t",
        "INSERT INTO public.t VALUES (2); VACUUM FULL public.t",
        "ALTER TABLE public.t ADD COLUMN v float8 DEFAULT random()",
    ] {
        let (_holder, snapshot) = fixture.snapshot().await;
        for statement in change.split("; ") {
            fixture.run(statement).await;
        }
        let error = fixture.open(&snapshot, &["t"], 2).await.err().unwrap_or_else(|| panic!("{change} went unnoticed"));
        assert_eq!(error.kind(), ErrorKind::Retry, "{change}: {error}");
        assert!(error.to_string().contains("public.t was truncated or rewritten"), "{change}: {error}");
    }
    // Once the load has begun, a TRUNCATE waits.
    let (_holder, snapshot) = fixture.snapshot().await;
    let reader = fixture.open(&snapshot, &["t"], 2).await.unwrap();
    let blocked = fixture.client.batch_execute("SET lock_timeout = '200ms'; TRUNCATE public.t").await;
    assert_eq!(blocked.unwrap_err().code(), Some(&tokio_postgres::error::SqlState::LOCK_NOT_AVAILABLE));
    drop(reader);
    fixture.run("SET lock_timeout = '10s'; TRUNCATE public.t").await;
}

/// Loads tables of which some cannot be loaded: the ids of the others, and why not.
async fn load_some(
    connect: &ConnectConfig,
    fixture: &Fixture,
    tables: &[&str],
) -> (BTreeMap<String, usize>, BTreeMap<String, StopReason>) {
    let (_holder, snapshot) = fixture.snapshot().await;
    let tables: Vec<TableName> = tables.iter().map(|name| TableName::new("public", *name)).collect();
    let mut reader =
        SnapshotReader::open(connect, &snapshot, Position::Postgres(Lsn(7)), &tables, 2, &ValueRules::default())
            .await
            .unwrap();
    let (mut rows, mut done, mut failed) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    while let Some(event) = reader.next().await.unwrap() {
        match event {
            LoadEvent::Rows(table, buffer) => {
                assert!(!failed.contains_key(&table.name), "rows of {table} came after it failed");
                *rows.entry(table.name).or_insert(0) += buffer.len();
            }
            LoadEvent::Done(table) => {
                assert!(!failed.contains_key(&table.name), "{table} was done after it failed");
                let count = rows.remove(&table.name).unwrap_or(0);
                assert_eq!(done.insert(table.name, count), None);
            }
            LoadEvent::Failed(table, reason) => assert_eq!(failed.insert(table.name, reason), None),
        }
    }
    (done, failed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_fits_nowhere_stops_its_table_and_names_column_and_key() {
    let fixture = fixture(17, "unfit").await;
    fixture.run("CREATE TABLE public.fine (id int PRIMARY KEY); INSERT INTO public.fine VALUES (1), (2)").await;
    for (ty, value, what) in [
        ("date", "infinity", "infinity"),
        ("timestamp", "294276-12-31 00:00", "beyond the 64 bits"),
        ("timestamptz", "-infinity", "infinity"),
        ("time", "24:00", "24:00:00"),
        ("numeric(5,2)", "NaN", "NaN"),
    ] {
        fixture
            .run(&format!(
                "DROP TABLE IF EXISTS public.u; CREATE TABLE public.u (region text, v {ty}, id int, PRIMARY KEY (id, region)); \
                 INSERT INTO public.u VALUES ('eu', '{value}', 41), ('eu', '{value}', 42)"
            ))
            .await;
        let (done, failed) = load_some(&fixture.connect, &fixture, &["u", "fine"]).await;
        assert_eq!(done, BTreeMap::from([("fine".to_owned(), 2)]));
        let reason = &failed["u"];
        assert_eq!(reason.state, "unrepresentable value");
        assert!(reason.remedy.contains("calve reload public.u"), "{reason}");
        for part in ["\"v\"", "id = 41, region = 'eu'", what] {
            assert!(reason.detail.contains(part), "{ty} '{value}': '{part}' is not in: {reason}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_stops_its_table_only() {
    let fixture = fixture(17, "policies").await;
    fixture
        .run(
            "CREATE TABLE public.s (id bigint PRIMARY KEY); INSERT INTO public.s VALUES (1), (2); \
             ALTER TABLE public.s ENABLE ROW LEVEL SECURITY; CREATE POLICY one ON public.s USING (id = 1); \
             CREATE TABLE public.fine (id bigint PRIMARY KEY); INSERT INTO public.fine VALUES (1), (2); \
             CREATE TABLE public.keyless (id bigint); \
             GRANT SELECT ON public.s, public.fine TO calve; CREATE TABLE public.secret (id bigint PRIMARY KEY)",
        )
        .await;
    let connect = ConnectConfig::parse(&fixture.database.url("calve").unwrap()).unwrap();
    let (done, failed) = load_some(&connect, &fixture, &["s", "secret", "keyless", "gone", "fine"]).await;
    assert_eq!(done, BTreeMap::from([("fine".to_owned(), 2)]));
    for (table, part) in [
        ("s", "ALTER ROLE \"calve\" BYPASSRLS"),
        ("secret", "GRANT SELECT ON \"public\".\"secret\" TO \"calve\""),
        ("keyless", "ADD PRIMARY KEY"),
        ("gone", "does not exist"),
    ] {
        assert!(failed[table].to_string().contains(part), "'{part}' is not in: {}", failed[table]);
    }
    // Whoever sees all rows gets all rows.
    assert_eq!(ids(&fixture.load(&["s"], 1).await.unwrap()["s"]), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_names_and_many_columns() {
    let fixture = fixture(17, "names").await;
    let columns: Vec<String> = (0..500).map(|index| format!("\"Column {index}\" int DEFAULT {index}")).collect();
    fixture
        .run(&format!(
            "CREATE TABLE public.\"Wide \"\"Ü\"\" %s\" (id bigint PRIMARY KEY, \"it's %1$s\" inet, {}); \
             INSERT INTO public.\"Wide \"\"Ü\"\" %s\" VALUES (1, '10.0.0.1')",
            columns.join(", ")
        ))
        .await;
    let name = "Wide \"Ü\" %s";
    let loaded = fixture.load(&[name], 1).await.unwrap().remove(name).unwrap();
    let [rows] = <[RowBuffer; 1]>::try_from(loaded).unwrap();
    let (_, images, _) = rows.into_parts();
    assert_eq!(cell_text(&images[1], 0).unwrap(), "10.0.0.1");
    let Values::Int32(last) = images[501].values() else { panic!() };
    assert_eq!(*last, [499]);
}

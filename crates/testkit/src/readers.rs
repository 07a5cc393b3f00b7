//! Readers of Iceberg tables that share no code with calve: DuckDB, Spark with Iceberg's Java implementation, and
//! pyiceberg for metadata. What they read is what users will read.
//!
//! Each is a process that lives as long as its value and answers one question after another, so that many tables cost
//! one start (DuckDB half a second, Spark ten). Values come as the text Postgres gives for them (`value::text`, ISO
//! dates, UTC), the same from every reader: a test compares them with the source as they are. NULL is `None`.
//!
//! When both sides are ordered, `select id::text .. order by id` on the source sorts by the column that comes out, which
//! is text: "10" before "2". Qualify the column (`order by t.id`), or compare [`Rows::sorted`].

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Why a reader did not answer, in its own words.
#[derive(Debug)]
pub struct ReaderError {
    reader: &'static str,
    said: String,
}

impl fmt::Display for ReaderError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.reader, self.said)
    }
}

impl std::error::Error for ReaderError {}

/// The answer to a query. Rows are in the query's order, which means something only with `order by`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Column names as the reader gives them; of expressions they differ between readers.
    pub columns: Vec<String>,
    /// Values as canonical text. A list column is shown as JSON of such texts.
    pub rows: Vec<Vec<Option<String>>>,
}

impl Rows {
    /// The rows in an order of their own, for comparing sets.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.rows.sort();
        self
    }

    /// The value of a query for one row of one column; `None` for NULL and for any other shape.
    pub fn single(&self) -> Option<&str> {
        match self.rows.as_slice() {
            [row] if row.len() == 1 => row.first()?.as_deref(),
            _ => None,
        }
    }
}

/// A table at one of its snapshots, named by its metadata file (a path or a `file:` URI).
#[derive(Clone, Debug)]
pub struct Table {
    metadata: String,
    snapshot: Option<i64>,
}

impl Table {
    /// The table at its current snapshot.
    pub fn current(metadata: impl Into<String>) -> Self {
        Self { metadata: metadata.into(), snapshot: None }
    }

    /// The table as of one of its snapshots.
    pub fn at(metadata: impl Into<String>, snapshot: i64) -> Self {
        Self { metadata: metadata.into(), snapshot: Some(snapshot) }
    }

    fn to_json(&self) -> Value {
        json!({"metadata": self.metadata, "snapshot_id": self.snapshot})
    }
}

/// Answers SQL over tables.
pub trait Reader {
    /// Runs a query over the tables, each under the name given with it.
    fn query(&mut self, tables: &[(&str, &Table)], sql: &str) -> Result<Rows, ReaderError>;

    /// Runs a query over one table, named `t` in it.
    fn query_table(&mut self, table: &Table, sql: &str) -> Result<Rows, ReaderError> {
        self.query(&[("t", table)], sql)
    }
}

/// DuckDB with its Iceberg extension.
#[derive(Debug)]
pub struct DuckDb(Conversation);

/// Spark with Iceberg's own implementation. It cannot show tables that have a `time` column.
#[derive(Debug)]
pub struct Spark(Conversation);

/// pyiceberg, for what the metadata says. It refuses to read rows under equality deletes.
#[derive(Debug)]
pub struct Metadata(Conversation);

impl DuckDb {
    /// Starts the reader; the first time on a machine this installs it, which takes a minute or two.
    pub fn open() -> Result<Self, ReaderError> {
        Conversation::open("DuckDB", "duckdb_reader.py").map(Self)
    }

    /// The current metadata file of a table, from a sqlite catalog; right beside a running writer too.
    pub fn locate(&mut self, catalog: &Path, namespace: &str, table: &str) -> Result<String, ReaderError> {
        let asked = json!({"locate": {"catalog": catalog, "namespace": namespace, "table": table}});
        let answer = self.0.ask(&asked)?;
        answer.get("metadata").and_then(Value::as_str).map(str::to_owned).ok_or_else(|| self.0.unclear(&answer))
    }
}

impl Spark {
    /// Starts the reader, in about ten seconds: ask one of many things.
    pub fn open() -> Result<Self, ReaderError> {
        Conversation::open("Spark", "spark_reader.py").map(Self)
    }
}

impl Metadata {
    /// Starts the reader.
    pub fn open() -> Result<Self, ReaderError> {
        Conversation::open("pyiceberg", "metadata_reader.py").map(Self)
    }

    /// Schema, properties, refs and snapshots of a table, and the files of the snapshot asked for: the JSON of
    /// `describe` in `integration/readers/metadata_reader.py`.
    pub fn describe(&mut self, table: &Table) -> Result<Value, ReaderError> {
        let mut answer = self.0.ask(&json!({"describe": table.to_json()}))?;
        match answer.get_mut("described") {
            Some(described) => Ok(described.take()),
            None => Err(self.0.unclear(&answer)),
        }
    }
}

impl Reader for DuckDb {
    fn query(&mut self, tables: &[(&str, &Table)], sql: &str) -> Result<Rows, ReaderError> {
        self.0.query(tables, sql)
    }
}

impl Reader for Spark {
    fn query(&mut self, tables: &[(&str, &Table)], sql: &str) -> Result<Rows, ReaderError> {
        self.0.query(tables, sql)
    }
}

/// How long a reader may take to leave: Spark stops a JVM.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);

/// A reader's process and the two ends of its conversation, one line of JSON each way.
#[derive(Debug)]
struct Conversation {
    reader: &'static str,
    process: Child,
    /// Taken when the value goes: the end of its input is what ends the process.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Conversation {
    fn open(reader: &'static str, script: &str) -> Result<Self, ReaderError> {
        let failed = |said: String| ReaderError { reader, said };
        let readers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration/readers");
        let made = Command::new(readers.join("setup.sh"))
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| failed(format!("cannot run {}: {error}", readers.join("setup.sh").display())))?;
        if !made.status.success() {
            return Err(failed("its Python environment cannot be made; the reason stands above".to_owned()));
        }
        let printed = String::from_utf8_lossy(&made.stdout);
        let environment = Path::new(printed.trim());
        let mut process = Command::new(environment.join("bin/python"))
            .arg(readers.join(script))
            .arg(environment.join("jackson.jar"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| failed(format!("cannot run {}: {error}", environment.join("bin/python").display())))?;
        let requests = process.stdin.take();
        let Some(stdout) = process.stdout.take() else { return Err(failed("it has no output".to_owned())) };
        let mut conversation = Self { reader, process, requests, answers: BufReader::new(stdout) };
        conversation.hear()?;
        Ok(conversation)
    }

    fn query(&mut self, tables: &[(&str, &Table)], sql: &str) -> Result<Rows, ReaderError> {
        let named: serde_json::Map<_, _> =
            tables.iter().map(|(name, table)| ((*name).to_owned(), table.to_json())).collect();
        let answer = self.ask(&json!({"tables": named, "sql": sql}))?;
        rows_of(&answer).ok_or_else(|| self.unclear(&answer))
    }

    fn ask(&mut self, request: &Value) -> Result<Value, ReaderError> {
        let sent = match &mut self.requests {
            Some(requests) => writeln!(requests, "{request}").and_then(|()| requests.flush()),
            None => Ok(()),
        };
        sent.map_err(|error| self.failed(format!("it takes no more questions: {error}")))?;
        let answer = self.hear()?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(self.failed(error.to_owned())),
            None => Ok(answer),
        }
    }

    fn hear(&mut self) -> Result<Value, ReaderError> {
        let mut line = String::new();
        let heard = self.answers.read_line(&mut line);
        match heard {
            Ok(0) => Err(self.failed("it ended; what it said on standard error tells why".to_owned())),
            Ok(_) => {
                serde_json::from_str(&line).map_err(|error| self.failed(format!("{error} in its answer {line:?}")))
            }
            Err(error) => Err(self.failed(format!("its answer cannot be read: {error}"))),
        }
    }

    fn failed(&self, said: String) -> ReaderError {
        ReaderError { reader: self.reader, said }
    }

    fn unclear(&self, answer: &Value) -> ReaderError {
        self.failed(format!("it answered something else than asked: {answer}"))
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        drop(self.requests.take());
        let deadline = Instant::now() + LEAVE_WITHIN;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Both do nothing to a process that has left; one in the middle of a query is not waited for any longer.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn rows_of(answer: &Value) -> Option<Rows> {
    let columns = answer.get("columns")?.as_array()?;
    let columns = columns.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    let rows = answer.get("rows")?.as_array()?;
    let rows = rows.iter().map(|row| Some(row.as_array()?.iter().map(cell_of).collect())).collect::<Option<_>>()?;
    Some(Rows { columns, rows })
}

fn cell_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        list => Some(list.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::{Postgres, SUPERUSER};
    use std::error::Error;
    use std::path::PathBuf;

    /// A directory with a catalog and the table `public.kinds`, written by pyiceberg, removed with the value.
    struct Sample(PathBuf);

    impl Sample {
        fn write(name: &str) -> Result<Self, Box<dyn Error>> {
            let directory = std::env::temp_dir().join(format!("calve-sample-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&directory)?;
            let sample = Self(directory);
            let readers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration/readers");
            let printed = Command::new(readers.join("setup.sh")).output()?.stdout;
            let python = Path::new(String::from_utf8(printed)?.trim()).join("bin/python");
            let written = Command::new(python).arg(readers.join("sample.py")).arg(&sample.0).output()?;
            assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
            Ok(sample)
        }

        fn catalog(&self) -> PathBuf {
            self.0.join("catalog.db")
        }
    }

    impl Drop for Sample {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// What pyiceberg was told to write, as Postgres prints it.
    const KINDS: [[&str; 13]; 3] = [
        [
            "1",
            "true",
            "7",
            "0.1",
            "1e+15",
            "1.5000",
            "2024-02-29",
            "2024-02-29 00:00:00.12",
            "1969-12-31 23:59:59.999999+00",
            "12121212-1212-1212-1212-121212121212",
            "\\x00ff",
            "é\"\n",
            "[\"1\",null]",
        ],
        [
            "3",
            "false",
            "-2147483648",
            "NaN",
            "-Infinity",
            "-9999999999999999.9999",
            "0001-01-01 BC",
            "0001-01-01 00:00:00 BC",
            "4714-11-24 00:00:00+00 BC",
            "00000000-0000-0000-0000-000000000000",
            "\\x",
            "",
            "[]",
        ],
        [
            "4",
            "true",
            "2147483647",
            "3.4028235e+38",
            "5e-324",
            "0.0001",
            "10000-01-01",
            "10000-01-01 00:00:00",
            "294247-01-01 23:59:59.999999+00",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "\\x00",
            "\\N",
            "[\"0\"]",
        ],
    ];

    fn kinds() -> Vec<Vec<Option<String>>> {
        let mut rows: Vec<Vec<_>> =
            KINDS.iter().map(|row| row.iter().map(|&text| Some(text.to_owned())).collect()).collect();
        let mut nulls = vec![None; 13];
        nulls[0] = Some("2".to_owned());
        rows.insert(1, nulls);
        rows
    }

    #[test]
    fn duckdb_and_pyiceberg_see_what_was_written() -> Result<(), Box<dyn Error>> {
        let sample = Sample::write("duckdb")?;
        let mut duckdb = DuckDb::open()?;
        let metadata = duckdb.locate(&sample.catalog(), "public", "kinds")?;
        let table = Table::current(&metadata);
        let all = "select * from t order by id";
        assert_eq!(duckdb.query_table(&table, all)?.rows, kinds());

        let described = Metadata::open()?.describe(&table)?;
        let snapshots = described["snapshots"].as_array().ok_or("no snapshots")?;
        let first = snapshots[0]["id"].as_i64().ok_or("no snapshot id")?;
        let operations: Vec<_> = snapshots.iter().map(|snapshot| &snapshot["operation"]).collect();
        assert_eq!(operations, ["append", "append"]);
        let files = described["files"].as_array().ok_or("no files")?;
        let bounds: Vec<_> = files.iter().map(|file| (&file["content"], &file["lower"]["id"])).collect();
        assert_eq!(bounds, [(&json!("data"), &json!("3")), (&json!("data"), &json!("1"))]);

        let then = Table::at(&metadata, first);
        assert_eq!(duckdb.query_table(&then, all)?.rows, kinds()[..2]);
        let grown = "select (select count(*) from now) - (select count(*) from before)";
        assert_eq!(duckdb.query(&[("now", &table), ("before", &then)], grown)?.single(), Some("2"));
        Ok(())
    }

    #[test]
    fn spark_sees_what_was_written() -> Result<(), Box<dyn Error>> {
        let sample = Sample::write("spark")?;
        let table = Table::current(DuckDb::open()?.locate(&sample.catalog(), "public", "kinds")?);
        let mut spark = Spark::open()?;
        assert_eq!(spark.query_table(&table, "select * from t order by id")?.rows, kinds());
        let said = spark.query_table(&table, "select nothing from t").map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains("nothing") && !said.contains("\tat ")));
        assert_eq!(spark.query_table(&table, "select count(*) from t")?.single(), Some("4"));
        Ok(())
    }

    #[test]
    fn a_table_that_is_not_there_is_an_error_and_the_reader_lives_on() -> Result<(), Box<dyn Error>> {
        let sample = Sample::write("missing")?;
        let mut duckdb = DuckDb::open()?;
        let said = duckdb.locate(&sample.catalog(), "public", "none").map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains("0 tables public.none")));
        let nowhere = Table::current("/nowhere/v1.metadata.json");
        let said = duckdb.query_table(&nowhere, "select 1 from t").map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains("/nowhere/v1.metadata.json")));
        assert_eq!(duckdb.query(&[], "select 1 order by 1")?.single(), Some("1"));
        Ok(())
    }

    /// The readers' canonical text is Postgres's own, where the two notations are least alike.
    #[test]
    fn values_read_as_postgres_prints_them() -> Result<(), Box<dyn Error>> {
        const EXPRESSIONS: [&str; 24] = [
            "cast(1e15 as double precision)",
            "cast(123456789012345 as double precision)",
            "cast(1234567890123456 as double precision)",
            "cast(0.0001 as double precision)",
            "cast(0.00001 as double precision)",
            "cast(0.1 as double precision) + cast(0.2 as double precision)",
            "cast('-0' as double precision)",
            "cast('NaN' as double precision)",
            "cast('-Infinity' as double precision)",
            "cast(100 as double precision)",
            "cast('1e100' as double precision)",
            "cast(0.1 as real)",
            "cast(999999 as real)",
            "cast(1000000 as real)",
            "cast(16777216 as real)",
            "cast(0.000012345 as real)",
            "cast(1.50 as numeric(10, 3))",
            "date '2024-02-29'",
            "date '0044-03-15 (BC)'",
            "timestamp '2024-02-29 23:59:59.000010'",
            "timestamp '1969-12-31 23:59:59.5'",
            "time '00:00:00.120000'",
            "cast('\\x00ff' as bytea)",
            "1 < 2",
        ];
        let mut duckdb = DuckDb::open()?;
        let server = Postgres::shared(17)?;
        assert!(server.url(SUPERUSER, "postgres")?.starts_with("postgres://"));
        for expression in EXPRESSIONS {
            let printed = server.psql("postgres", &format!("select ({})::text", expression.replace(" (BC)", " BC")))?;
            // DuckDB writes each byte of a blob with its own escape.
            let theirs = expression.replace("'\\x00ff' as bytea", "'\\x00\\xff' as blob");
            let read = duckdb.query(&[], &format!("select {theirs}"))?;
            assert_eq!(read.single(), Some(printed.trim_end()), "{expression}");
        }
        Ok(())
    }
}

//! What each test has for itself: a database, a lake, a pipeline.

use calve_integration::binary::Finished;
use calve_integration::compare;
use calve_integration::directory::Directory;
use calve_integration::lake::Lake;
use calve_integration::pipeline::Pipeline;
use calve_integration::sql::Sql;
use calve_testkit::servers::{Database, Kind, Postgres, REPLICATION_USER, Server};

/// A test's own world. What it leaves behind is kept unless the test says that it [passed](Case::pass).
pub(crate) struct Case {
    /// As who owns the tables: in Postgres the user that calve has, elsewhere the superuser.
    pub(crate) sql: Sql,
    pub(crate) pipeline: Pipeline,
    pub(crate) database: Database,
    pub(crate) directory: Directory,
}

impl Case {
    /// On the newest server that is everywhere.
    pub(crate) fn new(label: &str, schema: &str, tables: &[&str]) -> anyhow::Result<Self> {
        let server = Postgres::shared(17)?;
        Self::on(&server, label, schema, tables)
    }

    /// On this server. In MySQL and MariaDB the tables' names begin with that of the database.
    pub(crate) fn on(server: &Server, label: &str, schema: &str, tables: &[&str]) -> anyhow::Result<Self> {
        let mut directory = Directory::new(label)?;
        directory.keep();
        let database = server.create_database(label)?;
        let owner = if server.kind() == Kind::Postgres { REPLICATION_USER } else { server.kind().superuser() };
        let mut sql = Sql::connect(&database.url(owner)?)?;
        sql.run(schema)?;
        // Slots are the cluster's, so the database's name makes a pipeline's unique.
        let pipeline = Pipeline::new(directory.path(), database.name(), &database.url(REPLICATION_USER)?, tables);
        Ok(Self { sql, pipeline, database, directory })
    }

    pub(crate) fn lake(&self) -> &Lake {
        self.pipeline.lake()
    }

    /// Fails unless the tables equal their source to DuckDB.
    pub(crate) fn same(&mut self, tables: &[&str]) -> anyhow::Result<()> {
        compare::assert_same(&mut self.sql, self.pipeline.lake(), tables)
    }

    /// Fails unless the tables equal their source to Spark.
    pub(crate) fn same_by_spark(&mut self, tables: &[&str]) -> anyhow::Result<()> {
        compare::assert_same_by_spark(&mut self.sql, self.pipeline.lake(), tables)
    }

    /// Waits until a running calve has made the tables equal their source.
    pub(crate) fn await_same(&mut self, tables: &[&str]) -> anyhow::Result<()> {
        compare::await_same(&mut self.sql, self.pipeline.lake(), tables)
    }

    /// Loads or catches up, and compares.
    pub(crate) fn once_and_same(&mut self, tables: &[&str]) -> anyhow::Result<()> {
        self.pipeline.once()?;
        self.same(tables)
    }

    /// How far the source was told that it may forget its log.
    pub(crate) fn acknowledged(&mut self) -> anyhow::Result<String> {
        let slot = self.pipeline.slot();
        self.sql
            .value(&format!("select confirmed_flush_lsn::text from pg_replication_slots where slot_name = '{slot}'"))
    }

    /// Whether the slot's acknowledged position is at or beyond this one.
    pub(crate) fn acknowledged_to(&mut self, lsn: &str) -> anyhow::Result<bool> {
        let slot = self.pipeline.slot();
        let reached =
            format!("select confirmed_flush_lsn >= '{lsn}' from pg_replication_slots where slot_name = '{slot}'");
        Ok(self.sql.value(&reached)? == "t")
    }

    /// The end of the source's log.
    pub(crate) fn log_end(&mut self) -> anyhow::Result<String> {
        self.sql.value("select pg_current_wal_insert_lsn()::text")
    }

    /// The test is over and nothing was wrong.
    #[expect(clippy::unnecessary_wraps, reason = "the last line of every test")]
    pub(crate) fn pass(mut self) -> anyhow::Result<()> {
        self.directory.release();
        Ok(())
    }
}

/// Fails unless the process ended with this code and its complaint, which is one line, says all of this.
pub(crate) fn complains(finished: &Finished, code: i32, says: &[&str]) -> anyhow::Result<()> {
    let complaint = finished.complaint().unwrap_or_default();
    let told = says.iter().all(|part| complaint.contains(part));
    anyhow::ensure!(
        finished.code == Some(code) && told,
        "expected exit code {code} and a line that says {says:?}; got code {:?} and {complaint:?}\n{}",
        finished.code,
        finished.stderr
    );
    let lines = finished.stderr.lines().filter(|line| !line.starts_with('{')).count();
    anyhow::ensure!(lines == 1, "the complaint is {lines} lines long:\n{}", finished.stderr);
    Ok(())
}

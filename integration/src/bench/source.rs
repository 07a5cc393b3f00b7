//! A database server of the measurement's own, set up so that writing the data does not take longer than measuring.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use calve_testkit::servers::{Database, Kind, Options as ServerOptions, REPLICATION_USER, Server};

use crate::sql::Sql;

/// What makes a server write quickly. A crash would lose data, which here only means to begin again; how the log is
/// read does not change.
const QUICK_POSTGRES: [(&str, &str); 7] = [
    ("fsync", "off"),
    ("synchronous_commit", "off"),
    ("full_page_writes", "off"),
    ("autovacuum", "off"),
    ("max_wal_size", "16GB"),
    ("shared_buffers", "512MB"),
    ("checkpoint_timeout", "1h"),
];
const QUICK_BINLOG: [(&str, &str); 5] = [
    ("sync_binlog", "0"),
    ("innodb_flush_log_at_trx_commit", "0"),
    ("innodb_doublewrite", "OFF"),
    ("innodb_buffer_pool_size", "1G"),
    ("max_binlog_size", "1G"),
];

/// A running server with one database.
#[derive(Debug)]
pub(super) struct Source {
    server: Server,
    database: Database,
    url: String,
    /// A connection of the user that owns the tables.
    pub(super) sql: Sql,
}

impl Source {
    /// Starts a server of the newest version that all tests have.
    pub(super) fn start(kind: Kind) -> anyhow::Result<Self> {
        let (version, quick, redo) = match kind {
            Kind::Postgres => ("17", &QUICK_POSTGRES[..], None),
            Kind::MySql => ("9", &QUICK_BINLOG[..], Some("innodb_redo_log_capacity")),
            Kind::MariaDb => ("11.8", &QUICK_BINLOG[..], Some("innodb_log_file_size")),
        };
        let redo = redo.map(|name| (name, "2G"));
        let settings = quick.iter().copied().chain(redo);
        let options = settings.fold(ServerOptions::default(), |options, (name, value)| options.set(name, value));
        let server = Server::start(kind, version, &options)?;
        let database = server.create_database("bench")?;
        let owner = if kind == Kind::Postgres { REPLICATION_USER } else { kind.superuser() };
        let sql = Sql::connect(&database.url(owner)?)?;
        // TLS would be measured on one side only, were it left to the defaults of either client.
        let without_tls = if kind == Kind::Postgres { "sslmode=disable" } else { "ssl-mode=DISABLED" };
        let url = format!("{}?{without_tls}", database.url(REPLICATION_USER)?);
        Ok(Self { server, database, url, sql })
    }

    pub(super) fn kind(&self) -> Kind {
        self.server.kind()
    }

    /// For calve.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// For the clients that stand for the limit.
    pub(super) fn plain_url(&self) -> anyhow::Result<String> {
        Ok(self.database.url(REPLICATION_USER)?)
    }

    /// The database's name.
    pub(super) fn database(&self) -> &str {
        self.database.name()
    }

    /// The schema that tables lie in, as calve names it.
    pub(super) fn schema(&self) -> &str {
        if self.kind() == Kind::Postgres { "public" } else { self.database.name() }
    }

    /// A table as calve names it.
    pub(super) fn table(&self, name: &str) -> String {
        format!("{}.{name}", self.schema())
    }

    pub(super) fn port(&self) -> anyhow::Result<u16> {
        Ok(self.server.port()?)
    }

    /// Runs a client program of the server's own.
    pub(super) fn client(&self, program: &str, arguments: &[&str]) -> anyhow::Result<String> {
        Ok(self.server.client(program, REPLICATION_USER, self.database.name(), arguments)?)
    }

    /// How much log was ever written, in bytes; only differences mean anything.
    pub(super) fn log_bytes(&mut self) -> anyhow::Result<u64> {
        match self.kind() {
            Kind::Postgres => Ok(self.sql.value("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")?.parse()?),
            Kind::MySql | Kind::MariaDb => {
                let files = self.server.sql(self.database.name(), "show binary logs")?;
                let size = |line: &str| line.split('\t').nth(1)?.trim().parse::<u64>().ok();
                let sizes: Option<Vec<u64>> = files.lines().map(size).collect();
                Ok(sizes.with_context(|| format!("the binary logs have no sizes: {files}"))?.iter().sum())
            }
        }
    }

    /// Where the server keeps its data.
    pub(super) fn data_dir(&self) -> anyhow::Result<&Path> {
        Ok(self.server.data_dir()?)
    }
}

/// An error where the disk that a directory lies on has no room for so much.
pub(super) fn ensure_free(directory: &Path, bytes: u64) -> anyhow::Result<()> {
    let asked = Command::new("df").args(["--output=avail", "--block-size=1"]).arg(directory).output();
    let said = asked.context("running df")?.stdout;
    let free = std::str::from_utf8(&said).ok().and_then(|said| said.lines().last()?.trim().parse::<u64>().ok());
    let free = free.with_context(|| format!("df does not tell the room at {}", directory.display()))?;
    ensure!(
        free >= bytes,
        "{} has {} MB free and this takes {} MB: make room, set TMPDIR or CALVE_TEST_CACHE, or measure with fewer --rows",
        directory.display(),
        free >> 20,
        bytes >> 20
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_noticed_before_it_is_full() {
        let directory = std::env::temp_dir();
        assert!(ensure_free(&directory, 1).is_ok());
        let error = ensure_free(&directory, u64::MAX).unwrap_err().to_string();
        assert!(error.contains(&*directory.to_string_lossy()), "{error}");
    }
}

//! The kinds of databases that tables are replicated from, behind one face. Nothing beyond this file knows which it is.

use std::fmt;

use calve_core::{ChangeSink, ChangeSource, Finding, LoadReader, Position, Result, Secret, TableName, TableSchema};
use calve_mysql::{MySqlSettings, MySqlSource};
use calve_postgres::{PostgresSettings, PostgresSource, SlotStatus};
use std::sync::Arc;

/// Where a database is and how to log in.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Postgres(calve_postgres::ConnectConfig),
    MySql(calve_mysql::ConnectConfig),
}

impl Address {
    /// From a URL. What is wrong with it is said in words for the operator.
    pub(crate) fn parse(text: &str) -> std::result::Result<Self, String> {
        const FORMS: &str = "write postgres://user@host/database or mysql://user@host/database";
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => calve_postgres::ConnectConfig::parse(text).map(Self::Postgres),
            Some(("mysql" | "mariadb", _)) => calve_mysql::ConnectConfig::parse(text).map(Self::MySql),
            Some((scheme, _)) => return Err(format!("'{scheme}' is not a kind of source; {FORMS}")),
            None => return Err(format!("not an address; {FORMS}")),
        }
        .map_err(|error| error.to_string())
    }

    pub(crate) fn with_password(self, password: Secret) -> Self {
        match self {
            Self::Postgres(config) => Self::Postgres(config.with_password(password)),
            Self::MySql(config) => Self::MySql(config.with_password(password)),
        }
    }

    #[cfg(test)]
    pub(crate) fn user(&self) -> &str {
        match self {
            Self::Postgres(config) => config.user(),
            Self::MySql(config) => config.user(),
        }
    }

    /// The database; of MySQL the one that the address names, if it names one.
    pub(crate) fn database(&self) -> Option<&str> {
        match self {
            Self::Postgres(config) => Some(config.database()),
            Self::MySql(config) => config.database(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres(config) => config.fmt(f),
            Self::MySql(config) => config.fmt(f),
        }
    }
}

/// A database with how this pipeline reads it.
#[derive(Clone, Debug)]
pub(crate) enum Database {
    Postgres(PostgresSettings),
    MySql(MySqlSettings),
}

/// Where a log stands.
#[derive(Clone, Debug)]
pub(crate) struct LogReport {
    pub(crate) end: Position,
    /// Postgres: what keeps the log for the pipeline.
    pub(crate) slot: Option<SlotStatus>,
    /// MySQL and MariaDB: the log's files, oldest first, with their sizes in bytes.
    pub(crate) files: Vec<(String, u64)>,
}

impl LogReport {
    /// Bytes of log from a position to the end, where that can be told.
    pub(crate) fn bytes_from(&self, position: &Position) -> Option<u64> {
        let (Some(from), Some(end)) = (position.binlog_offset(), self.end.binlog_offset()) else {
            return position.bytes_until(&self.end);
        };
        let place = |file: &str| self.files.iter().position(|(name, _)| name == file);
        let (first, last) = (place(&from.file)?, place(&end.file)?);
        let between: u64 = self.files.get(first..last)?.iter().map(|(_, bytes)| bytes).sum();
        Some((between + end.offset).saturating_sub(from.offset))
    }
}

impl Database {
    /// The source, for the engine. Nothing is connected yet.
    pub(crate) fn source(self) -> Box<dyn ChangeSource> {
        match self {
            Self::Postgres(settings) => Box::new(PostgresSource::new(settings)),
            Self::MySql(settings) => Box::new(MySqlSource::new(settings)),
        }
    }

    /// What stands in the way of replicating these tables.
    pub(crate) async fn check(&self, tables: &[TableName]) -> Result<Vec<Finding>> {
        match self {
            Self::Postgres(settings) => calve_postgres::check(settings, tables).await,
            Self::MySql(settings) => calve_mysql::check(settings, tables).await,
        }
    }

    /// Tables that could be replicated, and those `named`, whatever they are.
    pub(crate) async fn list_tables(&self, named: &[TableName]) -> Result<Vec<TableName>> {
        match self {
            Self::Postgres(settings) => calve_postgres::list_tables(&settings.connect, named).await,
            Self::MySql(settings) => calve_mysql::list_tables(&settings.connect, named).await,
        }
    }

    /// Where the log stands.
    pub(crate) async fn log(&self) -> Result<LogReport> {
        match self {
            Self::Postgres(settings) => {
                let slot = calve_postgres::slot_status(settings).await?;
                Ok(LogReport { end: Position::Postgres(slot.current), slot: Some(slot), files: Vec::new() })
            }
            Self::MySql(settings) => {
                let log = calve_mysql::log_status(settings).await?;
                Ok(LogReport { end: log.end, slot: None, files: log.files })
            }
        }
    }

    /// What the pipeline has at its source that `drop` removes, in words; nothing where it has nothing there.
    pub(crate) fn belongings(&self) -> Option<String> {
        let Self::Postgres(settings) = self else { return None };
        let publication = if settings.manage_publication {
            format!(" and publication '{}'", settings.publication)
        } else {
            String::new()
        };
        Some(format!("slot '{}'{publication}", settings.slot))
    }

    /// Removes that, and says in lines what was done.
    pub(crate) async fn remove_belongings(&self) -> Result<Vec<String>> {
        match self {
            Self::Postgres(settings) => {
                Ok(calve_postgres::drop_pipeline(settings).await?.iter().map(ToString::to_string).collect())
            }
            Self::MySql(_) => Ok(Vec::new()),
        }
    }

    /// Begins to read a table for a comparison with the rows of this schema.
    pub(crate) async fn witness(&self, recorded: &TableSchema) -> Result<Witness> {
        Ok(match self {
            Self::Postgres(settings) => {
                Witness::Postgres(Box::new(calve_postgres::TableWitness::open(settings, recorded).await?))
            }
            Self::MySql(settings) => {
                Witness::MySql(Box::new(calve_mysql::TableWitness::open(settings, recorded).await?))
            }
        })
    }
}

/// An exact read of one table.
pub(crate) enum Witness {
    Postgres(Box<calve_postgres::TableWitness>),
    MySql(Box<calve_mysql::TableWitness>),
}

impl Witness {
    pub(crate) fn schema(&self) -> Result<Arc<TableSchema>> {
        match self {
            Self::Postgres(witness) => witness.schema(),
            Self::MySql(witness) => witness.schema(),
        }
    }

    pub(crate) fn reader(&mut self) -> &mut dyn LoadReader {
        match self {
            Self::Postgres(witness) => witness.reader(),
            Self::MySql(witness) => witness.reader(),
        }
    }

    /// Done with the rows: from here on the changes.
    pub(crate) async fn changes(self) -> Result<Changes> {
        Ok(match self {
            Self::Postgres(witness) => Changes::Postgres(Box::new(witness.changes().await?)),
            Self::MySql(witness) => Changes::MySql(Box::new(witness.changes().await?)),
        })
    }

    /// Done without the changes.
    pub(crate) async fn close(self) {
        match self {
            Self::Postgres(witness) => witness.close().await,
            Self::MySql(witness) => witness.close(),
        }
    }
}

/// The table's changes from its witness' position on.
pub(crate) enum Changes {
    Postgres(Box<calve_postgres::WitnessedChanges>),
    MySql(Box<calve_mysql::WitnessedChanges>),
}

impl Changes {
    pub(crate) async fn poll(&mut self, sink: &mut dyn ChangeSink) -> Result<()> {
        match self {
            Self::Postgres(changes) => changes.poll(sink).await,
            Self::MySql(changes) => changes.poll(sink).await,
        }
    }

    pub(crate) async fn close(self) {
        match self {
            Self::Postgres(changes) => changes.close().await,
            Self::MySql(changes) => changes.close(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_to_the_end_is_counted_over_files() {
        let at = |text: &str| text.parse::<Position>().unwrap();
        let files = [("b.000001", 100), ("b.000002", 200), ("b.000003", 50)];
        let report = LogReport {
            end: at("mysql:@b.000003:50"),
            slot: None,
            files: files.map(|(name, bytes)| (name.to_owned(), bytes)).to_vec(),
        };
        for (from, bytes) in [
            ("mysql:@b.000003:20", Some(30)),
            ("mysql:@b.000001:40", Some(310)),
            ("mysql:@b.000003:50", Some(0)),
            ("mysql:@b.000000:4", None),
            ("mysql:", None),
        ] {
            assert_eq!(report.bytes_from(&at(from)), bytes, "{from}");
        }
        let report = LogReport { end: at("postgres:0/20"), slot: None, files: Vec::new() };
        assert_eq!(report.bytes_from(&at("postgres:0/8")), Some(0x18));
    }
}

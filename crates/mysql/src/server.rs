//! Which server it is, how its log is set, and where the log stands.

use std::collections::HashMap;

use calve_core::{BinlogOffset, Error, ErrorKind, GtidSet, MariaDbPosition, Result};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use uuid::Uuid;

pub(crate) use crate::binlog::Flavour;
use crate::conversions::Conversions;
use crate::error::sql_error;

/// The server and its settings, as of one question. Settings that a server does not have are empty.
#[derive(Clone, Debug)]
#[expect(clippy::struct_field_names, reason = "one field a setting, by the server's names")]
pub(crate) struct Server {
    pub(crate) flavour: Flavour,
    pub(crate) version: (u16, u16, u16),
    /// As the server says it, such as `11.8.3-MariaDB-log`.
    pub(crate) version_text: String,
    /// `server_uuid`; MariaDB has none.
    pub(crate) uuid: Option<Uuid>,
    /// `server_uid` of MariaDB (10.6 and later): made from the machine and the data directory.
    pub(crate) uid: Option<String>,
    pub(crate) server_id: u32,
    pub(crate) log_bin: bool,
    /// `ON`, `OFF`, `ON_PERMISSIVE`, `OFF_PERMISSIVE`; empty on MariaDB.
    pub(crate) gtid_mode: String,
    pub(crate) binlog_format: String,
    pub(crate) binlog_row_image: String,
    pub(crate) binlog_row_metadata: String,
    pub(crate) lower_case_table_names: u8,
    pub(crate) log_replica_updates: bool,
    pub(crate) binlog_expire_logs_seconds: u64,
    pub(crate) expire_logs_days: f64,
    /// Whether changes that foreign keys make to other tables are in the log: MySQL from 9.6 on, unless told otherwise.
    pub(crate) logs_cascades: bool,
    /// Not the server's: what the pipeline chose of how to read it.
    pub(crate) conversions: Conversions,
}

const VARIABLES: &[&str] = &[
    "version",
    "server_uuid",
    "server_uid",
    "server_id",
    "log_bin",
    "gtid_mode",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "lower_case_table_names",
    "log_replica_updates",
    "log_slave_updates",
    "binlog_expire_logs_seconds",
    "expire_logs_days",
    "innodb_native_foreign_keys",
];

impl Server {
    pub(crate) async fn read(conn: &mut Conn) -> Result<Self> {
        let names: Vec<String> = VARIABLES.iter().map(|name| format!("'{name}'")).collect();
        let sql = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})", names.join(", "));
        let rows: Vec<(String, String)> =
            conn.query(sql).await.map_err(|error| sql_error("cannot read the server's settings", &error))?;
        let variables: HashMap<String, String> =
            rows.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        Ok(Self::of(&variables))
    }

    pub(crate) fn of(variables: &HashMap<String, String>) -> Self {
        let text = |name: &str| variables.get(name).map(String::as_str).unwrap_or_default();
        let on = |name: &str| matches!(text(name).to_ascii_uppercase().as_str(), "ON" | "1" | "YES" | "TRUE");
        let version_text = text("version").to_owned();
        let flavour = if version_text.contains("MariaDB") { Flavour::MariaDb } else { Flavour::MySql };
        Self {
            flavour,
            version: version(&version_text),
            uuid: Uuid::try_parse(text("server_uuid")).ok().filter(|_| flavour == Flavour::MySql),
            uid: Some(text("server_uid").to_owned()).filter(|uid| !uid.is_empty()),
            server_id: text("server_id").parse().unwrap_or(0),
            log_bin: on("log_bin"),
            gtid_mode: text("gtid_mode").to_owned(),
            binlog_format: text("binlog_format").to_owned(),
            binlog_row_image: text("binlog_row_image").to_owned(),
            binlog_row_metadata: text("binlog_row_metadata").to_owned(),
            lower_case_table_names: text("lower_case_table_names").parse().unwrap_or(0),
            log_replica_updates: on("log_replica_updates") || on("log_slave_updates"),
            binlog_expire_logs_seconds: text("binlog_expire_logs_seconds").parse().unwrap_or(0),
            expire_logs_days: text("expire_logs_days").parse().unwrap_or(0.0),
            logs_cascades: variables.contains_key("innodb_native_foreign_keys") && !on("innodb_native_foreign_keys"),
            conversions: Conversions::default(),
            version_text,
        }
    }

    /// Whether transactions have GTIDs that the log can be read by.
    pub(crate) fn has_gtids(&self) -> bool {
        self.flavour == Flavour::MariaDb || self.gtid_mode.eq_ignore_ascii_case("ON")
    }

    /// Whether the log carries the column. Generated ones, stored and virtual, MySQL's does, and MariaDB's of 10.11; 11.8
    /// leaves both kinds out of the images of updates and deletes, whatever `binlog_row_image` is.
    pub(crate) fn logs(&self, column: &crate::describe::catalog::CatalogColumn) -> bool {
        !column.is_generated() || self.flavour == Flavour::MySql || self.version < (11, 0, 0)
    }

    /// The statement that says where the log ends.
    pub(crate) fn log_status_statement(&self) -> &'static str {
        if self.new_names() { "SHOW BINARY LOG STATUS" } else { "SHOW MASTER STATUS" }
    }

    /// MySQL 8.2 gave the statements about the log new names, and 8.4 took the old ones away.
    fn new_names(&self) -> bool {
        self.flavour == Flavour::MySql && self.version >= (8, 2, 0)
    }
}

/// The leading `a.b.c`. Replication speaks of old MariaDB as `5.5.5-10.11.2-MariaDB`; the variable does not.
fn version(text: &str) -> (u16, u16, u16) {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

/// All transactions that the storage engines have committed (MySQL). A statement that begins later sees at least these.
pub(crate) async fn gtid_executed(conn: &mut Conn) -> Result<GtidSet> {
    gtid_set(conn, "gtid_executed").await
}

/// The transactions that the log no longer holds (MySQL).
pub(crate) async fn gtid_purged(conn: &mut Conn) -> Result<GtidSet> {
    gtid_set(conn, "gtid_purged").await
}

async fn gtid_set(conn: &mut Conn, variable: &str) -> Result<GtidSet> {
    let failed = |error: mysql_async::Error| sql_error(format_args!("cannot read {variable}"), &error);
    let text: Option<String> = conn.query_first(format!("SELECT @@GLOBAL.{variable}")).await.map_err(failed)?;
    text.unwrap_or_default().parse().map_err(|error| unexpected(variable, &error))
}

/// The end of what is written to the log. It may be ahead of what a SELECT sees.
pub(crate) async fn binlog_end(conn: &mut Conn, server: &Server) -> Result<BinlogOffset> {
    let sql = server.log_status_statement();
    let row: Option<Row> =
        conn.query_first(sql).await.map_err(|error| sql_error("cannot read where the log ends", &error))?;
    let place =
        row.as_ref().and_then(|row| Some((row.get_opt::<String, _>(0)?.ok()?, row.get_opt::<u64, _>(1)?.ok()?)));
    let (file, offset) = place.ok_or_else(|| {
        Error::new(
            ErrorKind::Config,
            format!("the server writes no binary log ({sql} is empty); start it with log_bin"),
        )
    })?;
    Ok(BinlogOffset::new(&file, offset))
}

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// The files of the log, oldest first.
pub(crate) async fn binary_logs(conn: &mut Conn) -> Result<Vec<LogFile>> {
    let failed = |error: mysql_async::Error| sql_error("cannot list the files of the log", &error);
    let rows: Vec<Row> = conn.query("SHOW BINARY LOGS").await.map_err(failed)?;
    rows.iter()
        .map(|row| {
            let name = row.get_opt::<String, _>("Log_name").and_then(std::result::Result::ok);
            let bytes = row.get_opt::<u64, _>("File_size").and_then(std::result::Result::ok);
            name.zip(bytes)
                .map(|(name, bytes)| LogFile { name, bytes })
                .ok_or_else(|| unexpected("SHOW BINARY LOGS", "a row without name and size"))
        })
        .collect()
}

/// Where the log stood when this connection's consistent snapshot was taken (MariaDB, inside `START TRANSACTION WITH CONSISTENT
/// SNAPSHOT`): commits of the log and of the engine are one there. Outside of one it says nothing of use. None where the
/// server does not say.
pub(crate) async fn binlog_snapshot(conn: &mut Conn) -> Result<Option<BinlogOffset>> {
    let failed = |error: mysql_async::Error| sql_error("cannot read where the snapshot stands in the log", &error);
    let rows: Vec<(String, String)> = conn.query("SHOW STATUS LIKE 'binlog_snapshot_%'").await.map_err(failed)?;
    let value = |name: &str| rows.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    let place =
        value("binlog_snapshot_file").zip(value("binlog_snapshot_position")).filter(|(file, _)| !file.is_empty());
    place
        .map(|(file, offset)| {
            let offset = offset.parse().map_err(|_| unexpected("binlog_snapshot_position", "not a number"))?;
            Ok(BinlogOffset::new(file, offset))
        })
        .transpose()
}

/// The last transaction of every domain in the log (MariaDB).
pub(crate) async fn gtid_binlog_pos(conn: &mut Conn) -> Result<MariaDbPosition> {
    let failed = |error: mysql_async::Error| sql_error("cannot read gtid_binlog_pos", &error);
    let text: Option<String> = conn.query_first("SELECT @@GLOBAL.gtid_binlog_pos").await.map_err(failed)?;
    text.unwrap_or_default().parse().map_err(|error| unexpected("gtid_binlog_pos", &error))
}

/// The last transaction of every domain at a place in the log (MariaDB). The place must be between transactions.
pub(crate) async fn gtid_of(conn: &mut Conn, at: &BinlogOffset) -> Result<MariaDbPosition> {
    let failed = |error: mysql_async::Error| sql_error(format_args!("cannot find the GTID of {at}"), &error);
    let text: Option<Option<String>> =
        conn.exec_first("SELECT BINLOG_GTID_POS(?, ?)", (at.file.as_ref(), at.offset)).await.map_err(failed)?;
    let Some(text) = text.flatten() else {
        return Err(Error::new(
            ErrorKind::SourceGone,
            format!(
                "position lost: the log of the server does not hold the place {at}: it was purged, reset, or restored from a \
                 backup; run `calve reload --all`"
            ),
        ));
    };
    let position: MariaDbPosition = text.parse().map_err(|error| unexpected("BINLOG_GTID_POS", &error))?;
    Ok(MariaDbPosition { at: Some(at.clone()), ..position })
}

fn unexpected(what: &str, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the server answered {what} with what cannot be understood: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_tell_the_servers_apart() {
        for (text, flavour, expected, new_names) in [
            ("9.7.0", Flavour::MySql, (9, 7, 0), true),
            ("8.0.36-28.1", Flavour::MySql, (8, 0, 36), false),
            ("8.4.0-log", Flavour::MySql, (8, 4, 0), true),
            ("11.8.3-MariaDB-0+deb13u1-log", Flavour::MariaDb, (11, 8, 3), false),
            ("10.11.14-MariaDB", Flavour::MariaDb, (10, 11, 14), false),
        ] {
            let server = Server::of(&HashMap::from([("version".to_owned(), text.to_owned())]));
            assert_eq!((server.flavour, server.version, server.new_names()), (flavour, expected, new_names), "{text}");
        }
    }
}

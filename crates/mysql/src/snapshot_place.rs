//! Where a consistent read stands in the log, found without a lock and with a replica's privileges.
//!
//! A server writes a transaction to its log, then commits it in the engine, then counts it in `gtid_executed`; and each
//! connection has a snapshot of its own. So there is no one position of a read. There are two: everything up to the first is
//! in it, nothing beyond the second is. The first is what the server is seen to have committed before the first snapshot is
//! taken, the second the end of the log after the last was. What lies between is replayed by key.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use calve_core::{BinlogPosition, Error, ErrorKind, GtidPosition, Position, Result};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::time::{Instant, sleep};

use crate::binlog::Flavour;
use crate::connection;
use crate::error::sql_error;
use crate::load::SnapshotPositions;
use crate::server::{self, Server};
use crate::settings::MySqlSettings;

/// The engine's commit follows the log's at once, unless the server is in trouble.
const COMMIT_WAIT: Duration = Duration::from_mins(1);
/// Without GTIDs nothing says what is committed; what was in the log for this long is, if no replica holds it up.
const SETTLE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// What the positions of a read are found with.
pub(crate) struct SnapshotPlace {
    conn: Conn,
    server: Server,
    /// Everything up to here is committed.
    low: Position,
    /// And nothing else was in the log when it ended here, if that is known.
    all_until: Option<Position>,
}

impl SnapshotPlace {
    /// For a read whose changes a stream brings, which has come to `stream`: what it has brought will be in the read. For a
    /// read by itself there is none.
    ///
    /// A dump is sent a transaction when it is in the log, which may be before it is committed.
    pub(crate) async fn find(settings: &MySqlSettings, server: &Server, stream: Option<Position>) -> Result<Self> {
        let mut conn = connection::open(&settings.connect).await?;
        let low = committed(&mut conn, server, stream.as_ref()).await?;
        // A stream has read its log whole: where it has come as far, nothing else was in the log up to its place.
        let all_until = stream.filter(|stream| stream.covers(&low));
        Ok(Self { conn, server: server.clone(), low, all_until })
    }
}

#[async_trait]
impl SnapshotPositions for SnapshotPlace {
    async fn before(&mut self) -> Result<Position> {
        Ok(self.all_until.clone().unwrap_or_else(|| self.low.clone()))
    }

    /// Whatever changed the locked tables is committed and counted, or waits for the lock.
    async fn locked(&mut self) -> Result<Position> {
        if self.server.flavour == Flavour::MySql && !self.server.has_gtids() {
            let applied = server::binlog_end(&mut self.conn, &self.server).await?;
            return Ok(Position::Binlog(BinlogPosition { applied, resume: None, created: 0 }));
        }
        committed(&mut self.conn, &self.server, Some(&self.low)).await
    }

    async fn after(&mut self, _: &mut [Conn]) -> Result<Position> {
        let end = server::binlog_end(&mut self.conn, &self.server).await?;
        match &self.all_until {
            // Nothing was written since: the read is of one position.
            Some(all) if all.binlog_offset() == Some(&end) => Ok(all.clone()),
            _ => Ok(Position::Binlog(BinlogPosition { applied: end, resume: None, created: 0 })),
        }
    }
}

/// A position up to which everything is committed in the engine, at or beyond the one that the stream has come to.
///
/// It is as near to the end of the log as can be: what a table was before, it need not become again.
async fn committed(conn: &mut Conn, server: &Server, stream: Option<&Position>) -> Result<Position> {
    let deadline = Instant::now() + COMMIT_WAIT;
    if server.flavour == Flavour::MySql && !server.has_gtids() {
        let applied = server::binlog_end(conn, server).await?;
        sleep(settle_time(conn).await?).await;
        return Ok(Position::Binlog(BinlogPosition { applied, resume: None, created: 0 }));
    }
    loop {
        let at = match server.flavour {
            Flavour::MariaDb => snapshot_position(conn).await?,
            Flavour::MySql => {
                let open = match stream {
                    Some(Position::MySql(at)) => Arc::clone(&at.open),
                    _ => Arc::default(),
                };
                Position::MySql(GtidPosition { open, ..GtidPosition::new(server::gtid_executed(conn).await?) })
            }
        };
        if stream.is_none_or(|stream| at.covers(stream)) {
            return Ok(at);
        }
        if Instant::now() >= deadline {
            return Err(Error::new(
                ErrorKind::Retry,
                format!(
                    "the server wrote transactions to its log and did not commit all of them within a minute (it is at {at}); is a \
                     replica that it waits for down?"
                ),
            ));
        }
        sleep(PAUSE).await;
    }
}

/// Where a snapshot taken now stands (MariaDB, whose snapshots know their place in the log).
async fn snapshot_position(conn: &mut Conn) -> Result<Position> {
    let failed = |error: mysql_async::Error| sql_error("cannot take a snapshot", &error);
    conn.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY").await.map_err(failed)?;
    let at = server::binlog_snapshot(conn).await?;
    conn.query_drop("ROLLBACK").await.map_err(failed)?;
    let Some(at) = at else {
        return Err(Error::new(
            ErrorKind::Config,
            "the server does not say where its snapshots stand in the log (binlog_snapshot_file is empty): is log_bin on?",
        ));
    };
    Ok(Position::MariaDb(server::gtid_of(conn, &at).await?))
}

/// How long a transaction may be in the log before it is committed: a semi-synchronous replica can hold it up.
async fn settle_time(conn: &mut Conn) -> Result<Duration> {
    const VARIABLES: &str =
        "SHOW GLOBAL VARIABLES WHERE Variable_name REGEXP '^rpl_semi_sync_(source|master)_(enabled|timeout)$'";
    const LONGEST: Duration = Duration::from_mins(1);
    let rows: Vec<(String, String)> =
        conn.query(VARIABLES).await.map_err(|error| sql_error("cannot read the server's settings", &error))?;
    let value = |end: &str| rows.iter().find(|(name, _)| name.ends_with(end)).map(|(_, value)| value.as_str());
    if value("_enabled") != Some("ON") {
        return Ok(SETTLE);
    }
    let timeout = Duration::from_millis(value("_timeout").and_then(|text| text.parse().ok()).unwrap_or(u64::MAX));
    if timeout > LONGEST {
        return Err(Error::new(
            ErrorKind::Config,
            "without GTIDs nothing says which transactions are committed while semi-synchronous replication may hold them up for \
             more than a minute: set gtid_mode = ON, or a smaller rpl_semi_sync_source_timeout",
        ));
    }
    Ok(timeout + SETTLE)
}

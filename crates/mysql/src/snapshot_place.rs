//! Where a consistent read stands in the log, found without a lock and with a replica's privileges.
//!
//! A server writes a transaction to its log, then commits it in the engine, then counts it in `gtid_executed`; and each
//! connection has a snapshot of its own. So there is no one position of a read. There are two: everything up to the first is
//! in it, nothing beyond the second is. The first is where the stream stands, once the server is seen to have committed all of
//! that; the second is the end of the log after the last snapshot was taken. What lies between is replayed by key.

use std::time::Duration;

use async_trait::async_trait;
use calve_core::{BinlogPosition, Error, ErrorKind, GtidSet, Position, Result};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::time::{Instant, sleep};

use crate::binlog::Flavour;
use crate::connection;
use crate::error::sql_error;
use crate::load::SnapshotPositions;
use crate::server::{self, Server};
use crate::settings::MySqlSettings;
use crate::source::{LogEnds, log_ends};
use crate::transactions::Transactions;

/// The engine's commit follows the log's at once, unless the server is in trouble.
const COMMIT_WAIT: Duration = Duration::from_mins(1);
/// Without GTIDs nothing says what is committed; what was in the log for this long is, if no replica holds it up.
const SETTLE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// What the positions of a read are found with.
pub(crate) struct SnapshotPlace {
    conn: Conn,
    server: Server,
    low: Position,
}

impl SnapshotPlace {
    /// For a read whose changes the stream brings: everything that the stream has brought will be in it.
    pub(crate) async fn behind_stream(
        settings: &MySqlSettings,
        server: &Server,
        transactions: &Transactions,
    ) -> Result<Self> {
        let mut place = Self {
            conn: connection::open(&settings.connect).await?,
            server: server.clone(),
            low: transactions.place().position(),
        };
        place.wait_until_committed(transactions.place().executed()).await?;
        Ok(place)
    }

    /// For a read by itself, at the end of the log.
    pub(crate) async fn at_end(settings: &MySqlSettings, server: &Server) -> Result<Self> {
        let mut conn = connection::open(&settings.connect).await?;
        let LogEnds { end, .. } = log_ends(&mut conn, server).await?;
        let mut place = Self { conn, server: server.clone(), low: end };
        // What gtid_executed counts is committed; the other counters may be ahead.
        place.wait_until_committed(None).await?;
        Ok(place)
    }

    async fn wait_until_committed(&mut self, executed: Option<&GtidSet>) -> Result<()> {
        match (self.server.flavour, &self.low) {
            (Flavour::MariaDb, Position::MariaDb(low)) => {
                let (low, deadline) = (low.clone(), Instant::now() + COMMIT_WAIT);
                while !self.snapshot_holds(&Position::MariaDb(low.clone())).await? {
                    self.pause(deadline).await?;
                }
            }
            (Flavour::MySql, Position::MySql(_)) => {
                let Some(executed) = executed else { return Ok(()) };
                let deadline = Instant::now() + COMMIT_WAIT;
                while !server::gtid_executed(&mut self.conn).await?.is_superset(executed) {
                    self.pause(deadline).await?;
                }
            }
            _ => sleep(self.settle_time().await?).await,
        }
        Ok(())
    }

    async fn pause(&self, deadline: Instant) -> Result<()> {
        if Instant::now() >= deadline {
            return Err(Error::new(
                ErrorKind::Retry,
                format!(
                    "the server has written {} to its log and does not commit it; is a replica that it waits for down?",
                    self.low
                ),
            ));
        }
        sleep(PAUSE).await;
        Ok(())
    }

    /// Whether a snapshot taken now holds everything up to here (MariaDB, whose snapshots know their place in the log).
    async fn snapshot_holds(&mut self, position: &Position) -> Result<bool> {
        let failed = |error: mysql_async::Error| sql_error("cannot take a snapshot", &error);
        self.conn.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY").await.map_err(failed)?;
        let at = server::binlog_snapshot(&mut self.conn).await?;
        self.conn.query_drop("ROLLBACK").await.map_err(failed)?;
        let Some(at) = at else {
            return Err(Error::new(
                ErrorKind::Config,
                "the server does not say where its snapshots stand in the log (binlog_snapshot_file is empty): is log_bin on?",
            ));
        };
        Ok(Position::MariaDb(server::gtid_of(&mut self.conn, &at).await?).covers(position))
    }

    /// How long a transaction may be in the log before it is committed: a semi-synchronous replica can hold it up.
    async fn settle_time(&mut self) -> Result<Duration> {
        const VARIABLES: &str =
            "SHOW GLOBAL VARIABLES WHERE Variable_name REGEXP '^rpl_semi_sync_(source|master)_(enabled|timeout)$'";
        const LONGEST: Duration = Duration::from_mins(1);
        let rows: Vec<(String, String)> =
            self.conn.query(VARIABLES).await.map_err(|error| sql_error("cannot read the server's settings", &error))?;
        let value = |end: &str| rows.iter().find(|(name, _)| name.ends_with(end)).map(|(_, value)| value.as_str());
        if value("_enabled") != Some("ON") {
            return Ok(SETTLE);
        }
        let timeout = Duration::from_millis(value("_timeout").and_then(|text| text.parse().ok()).unwrap_or(u64::MAX));
        if timeout > LONGEST {
            return Err(Error::new(
                ErrorKind::Config,
                "without GTIDs nothing says which transactions are committed while semi-synchronous replication may hold them \
                 up for more than a minute: set gtid_mode = ON, or a smaller rpl_semi_sync_source_timeout",
            ));
        }
        Ok(timeout + SETTLE)
    }
}

#[async_trait]
impl SnapshotPositions for SnapshotPlace {
    async fn before(&mut self) -> Result<Position> {
        Ok(self.low.clone())
    }

    async fn after(&mut self, _: &mut [Conn]) -> Result<Position> {
        let end = server::binlog_end(&mut self.conn, &self.server).await?;
        // Where nothing was written since, the read is of one position.
        if self.low.binlog_offset() == Some(&end) {
            return Ok(self.low.clone());
        }
        Ok(Position::Binlog(BinlogPosition { applied: end, resume: None, created: 0 }))
    }
}

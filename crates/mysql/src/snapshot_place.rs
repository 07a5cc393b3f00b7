//! Where a consistent read stands in the log, found without a lock and with a replica's privileges.
//!
//! A server writes a transaction to its log, then commits it in the engine, then counts it in `gtid_executed`; and each
//! connection has a snapshot of its own. So there is no one position of a read. There are two: everything up to the first is
//! in it, nothing beyond the second is. The first is where the stream stands, once the server is seen to have committed all of
//! that; the second is the end of the log after the last snapshot was taken. What lies between is replayed by key.

use std::time::Duration;

use async_trait::async_trait;
use calve_core::{BinlogPosition, Error, ErrorKind, GtidSet, Position, Result};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use tokio::time::{Instant, sleep};

use crate::binlog::Flavour;
use crate::connection;
use crate::ddl::Xid;
use crate::error::sql_error;
use crate::load::SnapshotPositions;
use crate::server::{self, Server};
use crate::settings::MySqlSettings;
use crate::source::{LogEnds, log_ends};
use crate::transactions::Transactions;

/// The engine's commit follows the log's at once, unless the server is in trouble.
const COMMIT_WAIT: Duration = Duration::from_mins(1);
/// XA transactions that were prepared before reading began are waited for this long.
const PREPARED_WAIT: Duration = Duration::from_secs(10);
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
        place.wait_for_prepared(|xid| transactions.is_prepared(xid)).await?;
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

    /// XA transactions prepared before reading began have rows that nobody here has seen: a read begun after their end has
    /// them. Where the server does not tell, or they stay, the tables concerned are stopped when one of them is committed.
    async fn wait_for_prepared(&mut self, known: impl Fn(&Xid) -> bool) -> Result<()> {
        let deadline = Instant::now() + PREPARED_WAIT;
        let mut said = false;
        loop {
            let rows: Vec<Row> = match self.conn.query("XA RECOVER").await {
                Ok(rows) => rows,
                Err(error) => {
                    tracing::debug!(%error, "the server does not list prepared XA transactions to this user");
                    return Ok(());
                }
            };
            let unknown = rows.iter().filter_map(recovered).filter(|xid| !known(xid)).count();
            if unknown == 0 {
                return Ok(());
            }
            if Instant::now() >= deadline {
                tracing::warn!(
                    transactions = unknown,
                    "XA transactions were prepared before reading began and are still open: if one of them changed a table that \
                     is replicated, the table stops when it is committed"
                );
                return Ok(());
            }
            if !std::mem::replace(&mut said, true) {
                tracing::info!(
                    transactions = unknown,
                    "waiting for XA transactions that were prepared before reading began"
                );
            }
            sleep(PAUSE * 20).await;
        }
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

/// formatID, gtrid_length, bqual_length, data.
fn recovered(row: &Row) -> Option<Xid> {
    let number = |index: usize| row.get_opt::<u64, _>(index)?.ok();
    let data: Vec<u8> = row.get_opt(3)?.ok()?;
    let (global, branch) = (usize::try_from(number(1)?).ok()?, usize::try_from(number(2)?).ok()?);
    Some(Xid {
        format: u32::try_from(number(0)?).ok()?,
        global: data.get(..global)?.to_vec(),
        branch: data.get(global..global.checked_add(branch)?)?.to_vec(),
    })
}

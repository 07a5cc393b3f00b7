//! The replication slot: what makes Postgres keep its log for a pipeline.

use std::time::Duration;

use calve_core::{Error, ErrorKind, Lsn, Result};
use tokio_postgres::Client;

use crate::config::ConnectConfig;
use crate::error::{ServerError, code, sql_error};
use crate::sql::{identifier, literal};
use crate::transport::{ReplicationConnection, Reply};

/// How the server describes a slot (`pg_replication_slots`), and where its log stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotStatus {
    /// Whether there is such a slot. If not, all else but `current` is empty.
    pub exists: bool,
    /// The process that reads from it.
    pub active_pid: Option<i32>,
    /// What was acknowledged last.
    pub confirmed_flush: Option<Lsn>,
    /// `reserved`, `extended`, `unreserved` or `lost`.
    pub wal_status: Option<String>,
    /// Bytes of log that the server keeps because of the slot.
    pub retained_bytes: Option<u64>,
    /// Bytes of log that may still be written before the slot loses its own; None without `max_slot_wal_keep_size`.
    pub safe_bytes: Option<i64>,
    /// Why it cannot be used any more, in the server's words.
    pub invalidated: Option<String>,
    /// The end of the server's log now.
    pub current: Lsn,
}

/// A slot is waited for this long at least; a reader that died is noticed by the server after `wal_sender_timeout`.
const ACTIVE_WAIT: Duration = Duration::from_secs(30);
const ACTIVE_RETRY: Duration = Duration::from_millis(100);
const ACTIVE_RETRY_MAX: Duration = Duration::from_secs(2);
/// A command that has waited this long is worth a line in the log.
const SLOW: Duration = Duration::from_secs(5);

/// Looks the slot up. None: there is none. A slot of that name that is of no use here is an error.
pub(crate) async fn status(client: &Client, config: &ConnectConfig, slot: &str) -> Result<Option<SlotStatus>> {
    // Columns that older servers do not have are taken from the row as JSON.
    const QUERY: &str = "SELECT s.slot_type, s.plugin::text, s.database::text, s.active_pid, \
         s.confirmed_flush_lsn::text, s.wal_status, s.safe_wal_size, \
         pg_wal_lsn_diff(pg_current_wal_flush_lsn(), s.restart_lsn)::int8, pg_current_wal_flush_lsn()::text, \
         to_jsonb(s)->>'invalidation_reason', s.temporary \
         FROM pg_replication_slots s WHERE s.slot_name = $1";
    let error = |error: &tokio_postgres::Error| sql_error(format!("cannot look up replication slot {slot}"), error);
    let row = client.query_opt(QUERY, &[&slot]).await.map_err(|e| error(&e))?;
    let Some(row) = row else { return Ok(None) };
    let get = |index: usize| row.try_get::<_, Option<String>>(index).map_err(|e| error(&e));
    let (kind, plugin, database) = (get(0)?, get(1)?, get(2)?);
    let temporary: bool = row.try_get(10).map_err(|e| error(&e))?;
    if kind.as_deref() != Some("logical")
        || plugin.as_deref() != Some("pgoutput")
        || database.as_deref() != Some(&config.database)
        || temporary
    {
        let what = match (kind.as_deref(), plugin.as_deref(), database.as_deref()) {
            (Some("logical"), Some("pgoutput"), Some(database)) if !temporary => format!("of database {database}"),
            (Some("logical"), Some(plugin), _) if !temporary => format!("of plugin {plugin}"),
            (Some("logical"), ..) => "a temporary one".to_owned(),
            _ => "a physical one".to_owned(),
        };
        return Err(Error::new(
            ErrorKind::Config,
            format!(
                "replication slot {slot} exists and is {what}, where calve needs a logical slot of plugin pgoutput in database \
                 {}: choose another slot or pipeline name",
                config.database
            ),
        ));
    }
    let lsn = |index: usize| -> Result<Option<Lsn>> { Ok(get(index)?.and_then(|text| text.parse().ok())) };
    let wal_status = get(5)?;
    let invalidated = get(9)?.or_else(|| (wal_status.as_deref() == Some("lost")).then(|| "wal_removed".to_owned()));
    Ok(Some(SlotStatus {
        exists: true,
        active_pid: row.try_get(3).map_err(|e| error(&e))?,
        confirmed_flush: lsn(4)?,
        retained_bytes: row
            .try_get::<_, Option<i64>>(7)
            .map_err(|e| error(&e))?
            .and_then(|bytes| bytes.try_into().ok()),
        safe_bytes: row.try_get(6).map_err(|e| error(&e))?,
        current: lsn(8)?.unwrap_or_default(),
        invalidated,
        wal_status,
    }))
}

impl SlotStatus {
    pub(crate) fn missing(current: Lsn) -> Self {
        Self {
            exists: false,
            active_pid: None,
            confirmed_flush: None,
            wal_status: None,
            retained_bytes: None,
            safe_bytes: None,
            invalidated: None,
            current,
        }
    }

    /// An invalidated slot has lost its log for ever.
    pub(crate) fn check_usable(&self, slot: &str) -> Result<()> {
        match &self.invalidated {
            None => Ok(()),
            Some(reason) => Err(lost(slot, reason)),
        }
    }
}

fn lost(slot: &str, reason: &str) -> Error {
    let hint = match reason {
        "wal_removed" => " (max_slot_wal_keep_size was exceeded; raise it)",
        "wal_level_insufficient" => " (wal_level must stay logical)",
        "idle_timeout" => " (idle_replication_slot_timeout was exceeded; raise it)",
        _ => "",
    };
    Error::new(
        ErrorKind::SourceGone,
        format!(
            "replication slot {slot} was invalidated by the server: {reason}{hint}; the log it kept is gone: run SELECT \
             pg_drop_replication_slot({}) and then `calve reload --all`",
            literal(slot)
        ),
    )
}

/// Creates the pipeline's slot. Waits until every transaction that runs now has ended, as Postgres must.
pub(crate) async fn create(config: &ConnectConfig, slot: &str) -> Result<()> {
    let mut connection = ReplicationConnection::open(config).await?;
    // A slot marked for failover is carried over to standbys that synchronize slots, and costs nothing elsewhere.
    let failover = if connection.major_version() >= 17 { ", FAILOVER true" } else { "" };
    let command =
        format!("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput (SNAPSHOT 'nothing'{failover})", identifier(slot));
    let reply = patiently(connection.try_command(&command), slot).await?;
    connection.close().await;
    match reply {
        Reply::Rows(_) => Ok(()),
        // Somebody was faster, or makes one at this moment; what it is shows when it is looked up again.
        Reply::Refused(error) if error.code == code::DUPLICATE_OBJECT => Err(Error::new(
            ErrorKind::Retry,
            format!("{error}: another connection made it just now, or waits for running transactions to make it"),
        )),
        Reply::Refused(error) => Err(create_error(slot, &error)),
    }
}

/// A snapshot of the database at one position, exported for others to read at. It lives as long as its connection.
pub(crate) struct ExportedSnapshot {
    connection: ReplicationConnection,
    pub(crate) name: String,
    pub(crate) position: Lsn,
}

impl ExportedSnapshot {
    /// Creates a temporary slot for its snapshot. The slot goes with the connection, also when this process dies.
    pub(crate) async fn create(config: &ConnectConfig, slot: &str) -> Result<Self> {
        let mut connection = ReplicationConnection::open(config).await?;
        let command =
            format!("CREATE_REPLICATION_SLOT {} TEMPORARY LOGICAL pgoutput (SNAPSHOT 'export')", identifier(slot));
        let rows = match patiently(connection.try_command(&command), slot).await? {
            Reply::Rows(rows) => rows,
            Reply::Refused(error) => return Err(create_error(slot, &error)),
        };
        // slot_name, consistent_point, snapshot_name, output_plugin
        match rows.first().map(Vec::as_slice) {
            Some([_, Some(position), Some(name), ..]) => {
                let position = position.parse().map_err(|error| {
                    Error::with_source(ErrorKind::Corrupt, "CREATE_REPLICATION_SLOT answered no position", error)
                })?;
                Ok(Self { connection, name: name.clone(), position })
            }
            _ => Err(Error::new(
                ErrorKind::Corrupt,
                "CREATE_REPLICATION_SLOT answered without a snapshot; please report this",
            )),
        }
    }

    /// Streams on from the snapshot, through the same slot. The snapshot ends.
    pub(crate) async fn stream(self, slot: &str, command: &str) -> Result<ReplicationConnection> {
        let mut connection = self.connection;
        match connection.start_copy(command).await? {
            Ok(()) => Ok(connection),
            Err(error) => Err(stream_error(slot, &error)),
        }
    }

    /// Lets the slot go; whoever imported the snapshot keeps reading.
    pub(crate) async fn release(self) {
        self.connection.close().await;
    }
}

/// Says in the log when a new slot has to wait.
async fn patiently<T>(work: impl Future<Output = T>, slot: &str) -> T {
    let mut work = std::pin::pin!(work);
    if let Ok(done) = tokio::time::timeout(SLOW, &mut work).await {
        return done;
    }
    tracing::info!(
        slot,
        "a new replication slot waits for the transactions that run now to end (see pg_stat_activity for the oldest)"
    );
    work.await
}

fn create_error(slot: &str, error: &ServerError) -> Error {
    let advice = match error.code.as_str() {
        code::LIMIT_EXCEEDED => "raise max_replication_slots and restart the server, or drop a slot that nobody uses",
        code::NOT_IN_PREREQUISITE_STATE if error.message.contains("wal_level") => {
            "run ALTER SYSTEM SET wal_level = logical and restart the server"
        }
        code::INSUFFICIENT_PRIVILEGE => "the user needs the REPLICATION attribute: ALTER ROLE .. REPLICATION",
        _ => return error.during(format!("cannot create replication slot {slot}")),
    };
    Error::new(ErrorKind::Config, format!("cannot create replication slot {slot}: {error}; {advice}"))
}

/// The command that streams a slot from `from` on, large transactions while they are in progress. Cells are asked for in binary
/// form where every type's is understood.
pub(crate) fn start_command(slot: &str, from: Lsn, publication: &str, binary: bool) -> String {
    format!(
        "START_REPLICATION SLOT {} LOGICAL {from} (\"proto_version\" '2', \"streaming\" 'on', \"publication_names\" {}, \
         \"binary\" '{binary}')",
        identifier(slot),
        // A list of names, each quoted, in a literal. The replication grammar knows no backslash escapes.
        format_args!("'{}'", identifier(publication).replace('\'', "''"))
    )
}

/// Opens the stream on the slot. While another process holds the slot it is waited for: after a crash of our own the
/// server may need up to `wal_sender_timeout` to notice that the reader before is gone.
pub(crate) async fn open_stream(
    config: &ConnectConfig,
    slot: &str,
    command: &str,
    wal_sender_timeout: Duration,
) -> Result<ReplicationConnection> {
    let deadline = tokio::time::Instant::now() + ACTIVE_WAIT.max(wal_sender_timeout * 2);
    let mut pause = ACTIVE_RETRY;
    let mut said = false;
    loop {
        let mut connection = ReplicationConnection::open(config).await?;
        let Err(error) = connection.start_copy(command).await? else { return Ok(connection) };
        connection.close().await;
        if error.code != code::OBJECT_IN_USE {
            return Err(stream_error(slot, &error));
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "replication slot {slot} is still in use: {error}; another calve runs this pipeline, or end that process \
                     with SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = {}",
                    literal(slot)
                ),
            ));
        }
        if !std::mem::replace(&mut said, true) {
            tracing::info!(slot, reason = %error, "waiting for the replication slot to be released");
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(ACTIVE_RETRY_MAX);
    }
}

/// What an error that ends, or refuses, the stream means.
pub(crate) fn stream_error(slot: &str, error: &ServerError) -> Error {
    let gone = |message: String| Error::new(ErrorKind::SourceGone, message);
    match error.code.as_str() {
        code::UNDEFINED_OBJECT if error.message.contains("publication") => gone(format!(
            "{error}: it was dropped, or dropped and created again, at a point of the log that is still to be read, so changes \
             are missing; run SELECT pg_drop_replication_slot({}) and then `calve reload --all`",
            literal(slot)
        )),
        // It was there when the tables were looked at. Whether they lose anything by it is found when that is done again: a slot
        // whose maker was killed before it was finished goes by itself, and nobody has read from it.
        code::UNDEFINED_OBJECT => Error::new(ErrorKind::Retry, format!("{error}: it went after it was looked at")),
        code::NOT_IN_PREREQUISITE_STATE
            if error.message.contains("can no longer") || error.message.contains("invalidated") =>
        {
            lost(slot, error.detail.as_deref().unwrap_or(&error.message))
        }
        code::INSUFFICIENT_PRIVILEGE => Error::new(
            ErrorKind::Config,
            format!("cannot read replication slot {slot}: {error}; run ALTER ROLE .. REPLICATION for this user"),
        ),
        _ => error.during(format!("the stream of replication slot {slot} ended")),
    }
}

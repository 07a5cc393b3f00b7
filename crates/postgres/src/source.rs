//! Postgres behind the port of a change source.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use calve_core::{
    ChangeSink, ChangeSource, DurablePosition, Error, ErrorKind, LoadReader, LogState, Lsn, Position, Result,
    SourceIdentity, SourceTable, StopReason, TableIndex, TableName, TableSchema, ValueRules,
};
use calve_spool::Spools;
use sha2::Digest;
use std::sync::Arc;
use tokio_postgres::Client;

use crate::attributes;
use crate::column_kind::binary_safe;
use crate::config::ConnectConfig;
use crate::describe;
use crate::error::sql_error;
use crate::guard::Guard;
use crate::identity::{self, LogIdentity, TimelineHistory};
use crate::labels;
use crate::load::SnapshotReader;
use crate::partitions::Watch;
use crate::pgoutput::Decoder;
use crate::publication::{self, Membership, Owner};
use crate::slot::{self, ExportedSnapshot, SlotStatus};
use crate::stream::Stream;
use crate::transport::{ReplicationConnection, StreamSettings, WalStream};

/// What a pipeline needs to know of its source.
#[derive(Clone, Debug)]
pub struct PostgresSettings {
    /// Where the database is.
    pub connect: ConnectConfig,
    /// The replication slot, made where it is missing.
    pub slot: String,
    /// The publication.
    pub publication: String,
    /// Whether a publication that does not exist is made. One that exists is altered only if calve made it.
    pub manage_publication: bool,
    /// Connections that read tables side by side.
    pub load_parallelism: usize,
    /// Bytes of the stream read ahead of the decoder.
    pub read_ahead_bytes: usize,
    /// Where transactions in progress that are too large for memory are put meanwhile.
    pub spill_dir: PathBuf,
    /// What becomes of values that the lake cannot hold.
    pub rules: ValueRules,
}

impl PostgresSettings {
    /// The settings of a pipeline of this name, which slot and publication are named after.
    pub fn new(connect: ConnectConfig, pipeline: &str) -> Self {
        let name = slot_name(pipeline);
        Self {
            connect,
            slot: name.clone(),
            publication: name,
            manage_publication: true,
            load_parallelism: 2,
            read_ahead_bytes: 16 << 20,
            spill_dir: std::env::temp_dir(),
            rules: ValueRules::default(),
        }
    }
}

/// A name that Postgres takes for a slot: lower case letters, digits and underscores, at most 63 bytes. Names that would fall
/// together are told apart by a hash.
fn slot_name(pipeline: &str) -> String {
    const LONGEST: usize = 40;
    let plain: String = pipeline
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' { c } else { '_' })
        .take(LONGEST)
        .collect();
    let name = if plain.starts_with("calve") { plain.clone() } else { format!("calve_{plain}") };
    if plain == pipeline {
        return name;
    }
    let hash = sha2::Sha256::digest(pipeline.as_bytes());
    let short = hash.iter().take(4).fold(0_u32, |short, byte| short << 8 | u32::from(*byte));
    format!("{name}_{short:08x}")
}

/// A Postgres database as a source of changes.
pub struct PostgresSource {
    settings: PostgresSettings,
    /// For questions; opened when one is asked.
    client: Option<Client>,
    /// Of the cluster found last.
    history: TimelineHistory,
    /// What the publication has against some tables, found by `follow` and said by the next stream.
    stops: BTreeMap<TableName, StopReason>,
    acknowledged: Lsn,
    /// Where the log ended when it was looked at last.
    end: Lsn,
    /// A stream of cells in binary form met a type whose binary form is not understood.
    text_only: bool,
    stream: Option<Stream>,
}

impl PostgresSource {
    /// Nothing is connected before it is asked for.
    pub fn new(settings: PostgresSettings) -> Self {
        Self {
            settings,
            client: None,
            history: TimelineHistory::default(),
            stops: BTreeMap::new(),
            acknowledged: Lsn(0),
            end: Lsn(0),
            text_only: false,
            stream: None,
        }
    }

    /// The SQL connection, opened anew where it was lost.
    async fn client(&mut self) -> Result<&mut Client> {
        let client = match self.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.settings.connect.connect_sql().await?,
        };
        Ok(self.client.insert(client))
    }

    /// Asks the server who it is.
    async fn identify(&mut self) -> Result<LogIdentity> {
        let mut connection = ReplicationConnection::open(&self.settings.connect).await?;
        let rows = connection.command("IDENTIFY_SYSTEM", "cannot identify the server").await?;
        // systemid, timeline, xlogpos, dbname
        let [Some(system), Some(timeline), ..] = rows.first().map(Vec::as_slice).unwrap_or_default() else {
            return Err(Error::new(ErrorKind::Corrupt, "IDENTIFY_SYSTEM was answered without an identity"));
        };
        let timeline: u32 = timeline
            .parse()
            .map_err(|error| Error::with_source(ErrorKind::Corrupt, "IDENTIFY_SYSTEM answered no timeline", error))?;
        self.history = TimelineHistory::default();
        if timeline > 1 {
            // Without the file nothing can be proved, which matters only if the timeline is another than before.
            let command = format!("TIMELINE_HISTORY {timeline}");
            if let Ok(rows) = connection.command(&command, "cannot read the timeline's history").await
                && let Some([_, Some(text), ..]) = rows.first().map(Vec::as_slice)
            {
                self.history = TimelineHistory::parse(text);
            }
        }
        let identity = LogIdentity {
            system: system.clone(),
            timeline,
            database: self.settings.connect.database().to_owned(),
            slot: self.settings.slot.clone(),
        };
        connection.close().await;
        Ok(identity)
    }

    async fn refuse_standby(&mut self) -> Result<()> {
        let row = self.client().await?.query_one("SELECT pg_is_in_recovery()", &[]).await;
        let standby =
            row.and_then(|row| row.try_get(0)).map_err(|e| sql_error("cannot ask for the server's role", &e))?;
        if standby {
            return Err(Error::new(
                ErrorKind::Retry,
                format!(
                    "{} is a standby: give the address of the primary, or wait for its promotion",
                    self.settings.connect
                ),
            ));
        }
        Ok(())
    }

    /// The slot and the end of the log.
    async fn slot(&mut self) -> Result<(Option<SlotStatus>, Lsn)> {
        let (connect, name) = (self.settings.connect.clone(), self.settings.slot.clone());
        let client = self.client().await?;
        let slot = slot::status(client, &connect, &name).await?;
        let end = match &slot {
            Some(slot) => {
                slot.check_usable(&name)?;
                slot.current
            }
            None => current_lsn(client).await?,
        };
        Ok((slot, end))
    }
}

pub(crate) async fn current_lsn(client: &Client) -> Result<Lsn> {
    let failed = |error: tokio_postgres::Error| sql_error("cannot ask for the end of the log", &error);
    let row = client.query_one("SELECT pg_current_wal_flush_lsn()::text", &[]).await.map_err(failed)?;
    let text: &str = row.try_get(0).map_err(failed)?;
    text.parse().map_err(|error| Error::with_source(ErrorKind::Corrupt, "the server's log has no position", error))
}

pub(crate) async fn wal_sender_timeout(client: &Client) -> Result<Duration> {
    let failed = |error: tokio_postgres::Error| sql_error("cannot ask for wal_sender_timeout", &error);
    let query = "SELECT setting::int8 FROM pg_settings WHERE name = 'wal_sender_timeout'";
    let row = client.query_one(query, &[]).await.map_err(failed)?;
    let milliseconds: i64 = row.try_get(0).map_err(failed)?;
    Ok(Duration::from_millis(milliseconds.try_into().unwrap_or(0)))
}

/// A position of another database is before everything: recovery has refused it, or reads these tables anew.
fn lsn(position: &Position) -> Lsn {
    match position {
        Position::Postgres(lsn) => *lsn,
        _ => Lsn(0),
    }
}

/// How often the server hears from us, and how long we wait to hear from it, by its own timeout (zero: none).
pub(crate) fn stream_settings(wal_sender_timeout: Duration, read_ahead: usize) -> StreamSettings {
    const LONGEST: Duration = Duration::from_secs(5);
    let quarter = if wal_sender_timeout.is_zero() { LONGEST } else { wal_sender_timeout / 4 };
    StreamSettings {
        status_interval: quarter.min(LONGEST),
        ping_after: Duration::from_secs(10),
        dead_after: Duration::from_mins(2),
        read_ahead,
    }
}

#[async_trait]
impl ChangeSource for PostgresSource {
    async fn log_state(&mut self) -> Result<LogState> {
        let identity = self.identify().await?;
        self.refuse_standby().await?;
        let (slot, end) = self.slot().await?;
        let acknowledged = slot.and_then(|slot| slot.confirmed_flush);
        self.acknowledged = acknowledged.unwrap_or_default();
        self.end = end;
        Ok(LogState {
            identity: identity.to_source()?,
            acknowledged: acknowledged.map(Position::Postgres),
            fresh: Position::Postgres(acknowledged.unwrap_or(end)),
            end: Position::Postgres(end),
        })
    }

    fn same_log(&self, now: &LogState, remembered: &SourceIdentity, at: &Position) -> Result<()> {
        let (now, before) = (LogIdentity::from_source(&now.identity)?, LogIdentity::from_source(remembered)?);
        identity::same_log(&now, &before, lsn(at), &self.history)
    }

    async fn follow(&mut self, tables: &[TableName]) -> Result<()> {
        let name = self.settings.publication.clone();
        let log_kept = self.acknowledged > Lsn(0);
        let owner = if self.settings.manage_publication { Owner::Calve } else { Owner::User };
        self.stops = publication::follow(self.client().await?, &name, owner, tables, log_kept).await?;
        Ok(())
    }

    async fn keep_log(&mut self) -> Result<LogState> {
        slot::create(&self.settings.connect, &self.settings.slot).await?;
        self.log_state().await
    }

    async fn describe(&mut self, table: &TableName) -> Result<Arc<TableSchema>> {
        // What the stream will not have must not be read again as if it went on.
        publication::unpublished(self.stops.get(table))?;
        let rules = self.settings.rules.clone();
        describe::describe(self.client().await?, table, &rules).await
    }

    async fn start(&mut self, from: &Position, tables: &[SourceTable]) -> Result<()> {
        self.settings.rules.check(tables.iter().map(|table| &*table.schema))?;
        for table in tables {
            if let Some(wanted) = self.settings.rules.unapplied_mode(&table.schema) {
                let (table, mode) = (&table.name, table.schema.mode);
                tracing::warn!(%table, %mode, "its mode {wanted} of the configuration counts when the table is read again (calve reload {table})");
            }
            for what in self.settings.rules.unapplied_excerpt(&table.schema) {
                let table = &table.name;
                tracing::warn!(%table, "{what}, as the configuration says, once the table is read again (calve reload {table})");
            }
            for (column, wanted) in self.settings.rules.unapplied(&table.schema) {
                let table = &table.name;
                tracing::warn!(%table, column, "its type {wanted} of the configuration counts when the table is read again (calve reload {table})");
            }
        }
        let from = lsn(from);
        let (connect, slot, publication) =
            (self.settings.connect.clone(), self.settings.slot.clone(), self.settings.publication.clone());
        let names: Vec<TableName> = tables.iter().map(|table| table.name.clone()).collect();
        let rules = self.settings.rules.clone();
        let client = self.client().await?;
        attributes::tell_of_texts(client, tables.iter().map(|table| &*table.schema), &rules).await?;
        let timeout = wal_sender_timeout(client).await?;
        let membership = Membership::read(client, &publication, &names).await?;

        let kept = |table: &SourceTable| table.schema.kept().columns.iter().all(binary_safe);
        let binary = !self.text_only && tables.iter().all(kept);
        let command = slot::start_command(&slot, from, &publication, binary);
        let connection = slot::open_stream(&connect, &slot, &command, timeout).await?;
        // Asked for less than was confirmed the server begins there, and says nothing. From here on nobody else moves the slot.
        let confirmed = self.slot().await?.0.and_then(|slot| slot.confirmed_flush).unwrap_or_default();
        if confirmed > from {
            let what = format!(
                "replication slot \"{slot}\" was moved to {confirmed} by another process while this one was about to begin at {from}"
            );
            return Err(Error::new(ErrorKind::Retry, what));
        }
        let wal =
            WalStream::spawn(connection, self.acknowledged, stream_settings(timeout, self.settings.read_ahead_bytes));

        let mut stops = BTreeMap::new();
        for (index, table) in tables.iter().enumerate() {
            let recreated = membership.oid_of(&table.name).is_some_and(|oid| oid != table.schema.native_id);
            let reason = if recreated {
                Some(StopReason::schema_changed(&table.name, "the table was dropped and created again"))
            } else {
                self.stops.get(&table.name).cloned()
            };
            if let Some(reason) = reason {
                stops.insert(TableIndex(index), reason);
            }
        }
        let mut partitions = Watch::new(tables, &membership.partitioned());
        let mut found = partitions.look(self.client().await?).await?;
        for doubt in &mut found.doubts {
            // A run that ends where the log ends now has to decide by then.
            doubt.due = doubt.due.min(self.end);
        }
        let mut labels = labels::Watch::new(tables);
        labels.look(self.client().await?, &mut found).await?;
        let guard = Guard::spawn(connect, publication, names.clone(), membership, partitions, labels);
        Spools::sweep(&self.settings.spill_dir);
        let decoder = Decoder::new(tables, binary, Spools::new(&self.settings.spill_dir), self.settings.rules.clone());
        let mut stream = Stream::new(wal, guard, decoder, names, slot);
        stream.found(found);
        stream.refuse(stops);
        self.stream = Some(stream);
        Ok(())
    }

    async fn poll(&mut self, sink: &mut dyn ChangeSink) -> Result<()> {
        let Some(stream) = &mut self.stream else {
            return Err(Error::new(ErrorKind::Bug, "the stream was polled before it was started"));
        };
        let client = self.client.as_ref();
        let result = stream.poll(client, sink).await;
        self.text_only |= stream.wants_text();
        result
    }

    fn acknowledge(&mut self, position: &DurablePosition) {
        self.acknowledged = self.acknowledged.max(lsn(position.position()));
        if let Some(stream) = &self.stream {
            stream.acknowledge(self.acknowledged);
        }
    }

    async fn start_load(&mut self, tables: &[TableName]) -> Result<Box<dyn LoadReader>> {
        for table in tables {
            publication::unpublished(self.stops.get(table))?;
        }
        let name = self.settings.publication.clone();
        publication::forgive(self.client().await?, &name, tables).await?;
        for table in tables {
            self.stops.remove(table);
            if let Some(stream) = &mut self.stream {
                stream.forgive(table);
            }
        }
        let slot = temporary_slot(&self.settings.slot);
        let snapshot = ExportedSnapshot::create(&self.settings.connect, &slot).await?;
        let reader = SnapshotReader::open(
            &self.settings.connect,
            &snapshot.name,
            Position::Postgres(snapshot.position),
            tables,
            self.settings.load_parallelism,
            &self.settings.rules,
        )
        .await;
        snapshot.release().await;
        Ok(Box::new(reader?))
    }

    async fn stop(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.close().await;
        }
        self.client = None;
    }
}

/// A name for the slot of one load, told apart from those of other processes of the same pipeline.
pub(crate) fn temporary_slot(slot: &str) -> String {
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    let room: String = slot.chars().take(40).collect();
    format!("{room}_load_{}_{:x}", std::process::id(), nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_named_after_pipelines() {
        assert_eq!(slot_name("orders"), "calve_orders");
        assert_eq!(slot_name("calve"), "calve");
        assert_ne!(slot_name("Orders"), slot_name("orders"));
        assert_ne!(slot_name("a-b"), slot_name("a_b"));
        let long = slot_name(&"x".repeat(100));
        assert!(long.len() <= 63 && long != slot_name(&"x".repeat(101)), "{long}");
        assert!(temporary_slot(&long).len() <= 63);
    }

    #[test]
    fn the_server_hears_from_us_well_within_its_timeout() {
        for (timeout, interval) in [(0, 5_000), (60_000, 5_000), (4_000, 1_000), (1, 0)] {
            let settings = stream_settings(Duration::from_millis(timeout), 1);
            assert_eq!(settings.status_interval.as_millis(), interval, "wal_sender_timeout {timeout} ms");
        }
    }
}

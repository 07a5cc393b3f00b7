//! A running stream: blocks of WAL from the transport through the decoder into the sink.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use calve_core::{
    ChangeSink, Error, ErrorKind, Lsn, Partition, Partitions, Result, SchemaChange, StopReason, TableIndex, TableName,
    TableSchema,
};
use postgres_protocol::message::backend;
use tokio_postgres::Client;

use crate::attributes;
use crate::error::{ServerError, sql_error};
use crate::guard::Guard;
use crate::labels::Labels;
use crate::partitions::{Doubt, Findings};
use crate::pgoutput::{Decoder, LookedUp, Malformed, Reader, Replay};
use crate::slot::stream_error;
use crate::transport::{Block, WalStream};

/// `poll` returns after this long without a message.
const SHORT_WAIT: Duration = Duration::from_millis(250);
/// `poll` returns after this many bytes of a transaction that is replayed: as soon as after a block from the network.
const REPLAY_BYTES: usize = 256 << 10;
/// `XLogData`: its tag, start, end and clock come before the message of pgoutput.
const XLOG_DATA_HEADER: usize = 1 + 3 * 8;

pub(crate) struct Stream {
    wal: WalStream,
    guard: Guard,
    decoder: Decoder,
    names: Vec<TableName>,
    slot: String,
    /// What came and was not handled yet.
    block: Option<Block>,
    /// A transaction that is committed and was sent before, to be handled before what is left of the block.
    replay: Option<Replay>,
    /// Tables that cannot go on, not said to the sink yet.
    stops: BTreeMap<TableIndex, StopReason>,
    /// The partitions of tables from here on, not said to the sink yet.
    partitions: BTreeMap<TableIndex, Vec<Partition>>,
    /// Their labels of enums likewise.
    labels: BTreeMap<TableIndex, Labels>,
    /// What the log has to explain.
    doubts: Vec<(TableIndex, Doubt)>,
}

impl Stream {
    pub(crate) fn new(wal: WalStream, guard: Guard, decoder: Decoder, names: Vec<TableName>, slot: String) -> Self {
        let (stops, partitions, labels) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            wal,
            guard,
            decoder,
            names,
            slot,
            block: None,
            replay: None,
            stops,
            partitions,
            labels,
            doubts: Vec::new(),
        }
    }

    /// Takes in what the catalog says.
    pub(crate) fn found(&mut self, found: Findings) {
        let names = &self.names;
        let index = |table: &TableName| names.iter().position(|name| name == table).map(TableIndex);
        self.stops.extend(found.stops.into_iter().filter_map(|(table, reason)| Some((index(&table)?, reason))));
        self.partitions.extend(found.known.into_iter().filter_map(|(table, known)| Some((index(&table)?, known))));
        self.labels.extend(found.labels.into_iter().filter_map(|(table, labels)| Some((index(&table)?, labels))));
        self.doubts.extend(found.doubts.into_iter().filter_map(|doubt| Some((index(&doubt.table)?, doubt))));
    }

    /// Tables that cannot go on.
    pub(crate) fn refuse(&mut self, stops: BTreeMap<TableIndex, StopReason>) {
        self.stops.extend(stops);
    }

    pub(crate) fn acknowledge(&self, lsn: Lsn) {
        self.wal.acknowledge(lsn);
    }

    /// Rows came that can be read in text form only, which was not asked for.
    pub(crate) fn wants_text(&self) -> bool {
        self.decoder.wants_text()
    }

    /// The table is read again: what was against it no longer counts.
    pub(crate) fn forgive(&mut self, table: &TableName) {
        self.stops.retain(|index, _| self.names.get(index.0) != Some(table));
    }

    pub(crate) async fn close(self) {
        self.wal.close().await;
    }

    /// Handles what has arrived, at least one message or a short wait. Cancel-safe: a message stays in its block, or at the head
    /// of its replay, until it was handled, and handling one does not wait.
    pub(crate) async fn poll(&mut self, client: Option<&Client>, sink: &mut dyn ChangeSink) -> Result<()> {
        let result = self.poll_block(client, sink).await;
        if result.is_err() && self.decoder.in_transaction() {
            sink.abort();
        }
        result
    }

    async fn poll_block(&mut self, client: Option<&Client>, sink: &mut dyn ChangeSink) -> Result<()> {
        while let Some(finding) = self.guard.finding() {
            self.found(finding?);
        }
        self.say(sink);
        if self.replay.is_some() {
            return self.poll_replay(client, sink).await;
        }
        if self.block.is_none() {
            match tokio::time::timeout(SHORT_WAIT, self.wal.next()).await {
                Err(_) => return Ok(()),
                Ok(None) => {
                    return Err(Error::new(ErrorKind::Retry, "the replication connection to Postgres was lost"));
                }
                Ok(Some(block)) => self.block = Some(block?),
            }
        }
        while !sink.is_full() {
            let Some((tag, body)) = self.block.as_ref().and_then(Block::peek) else {
                self.block = None;
                return Ok(());
            };
            if !sink.has_room_for(body.len()) {
                break;
            }
            if let Some(message) = body.get(XLOG_DATA_HEADER..).filter(|_| tag == b'd')
                && let Some((oid, full)) = self.decoder.followed(message)
                && let Some(client) = client
            {
                let found = look_up(client, oid, full).await?;
                self.decoder.look_up(oid, found);
            }
            let handled = handle(&mut self.decoder, &self.slot, tag, body, sink);
            // Whatever became of it, it does not come again: after an error the stream is over.
            if let Some(block) = &mut self.block {
                block.advance();
            }
            self.replay = handled?;
            self.say(sink);
            if self.replay.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Says what is to be said of tables at this place in the log.
    fn say(&mut self, sink: &mut dyn ChangeSink) {
        let reached = self.decoder.reached();
        let decoder = &self.decoder;
        let due = self
            .doubts
            .extract_if(.., |(table, doubt)| doubt.due <= reached || decoder.emptied(*table, doubt.emptied_by));
        let doubted = due.filter(|(table, doubt)| !decoder.emptied(*table, doubt.emptied_by));
        self.stops.extend(doubted.map(|(table, doubt)| (table, doubt.reason)));
        for (table, reason) in std::mem::take(&mut self.stops) {
            sink.stop(table, reason);
        }
        if (self.partitions.is_empty() && self.labels.is_empty()) || !self.decoder.in_transaction() {
            return;
        }
        let wanted: Vec<_> = self.labels.extract_if(.., |table, _| sink.wants(*table)).collect();
        for (table, labels) in wanted {
            let Some(schema) = sink.schema_of(table) else { continue };
            let schema = Arc::new(TableSchema { labels, ..(*schema).clone() });
            sink.schema(table, SchemaChange { schema, existing_rows: None });
        }
        let doubts = &self.doubts;
        let ready = |table: &TableIndex| doubts.iter().all(|(doubted, _)| doubted != table) && sink.wants(*table);
        let ready: Vec<_> = self.partitions.keys().copied().filter(ready).collect();
        for table in ready {
            let (Some(known), Some(schema)) = (self.partitions.remove(&table), sink.schema_of(table)) else { continue };
            let emptied_by = schema.partitions.as_ref().and_then(|partitions| partitions.emptied_by);
            let partitions = Some(Partitions { known, emptied_by });
            let schema = Arc::new(TableSchema { partitions, ..(*schema).clone() });
            sink.schema(table, SchemaChange { schema, existing_rows: None });
        }
    }

    /// Handles a part of a transaction that was put aside while it was in progress.
    async fn poll_replay(&mut self, client: Option<&Client>, sink: &mut dyn ChangeSink) -> Result<()> {
        let Some(replay) = &mut self.replay else { return Ok(()) };
        let mut left = REPLAY_BYTES;
        while left > 0 && !sink.is_full() {
            let Some(message) = replay.peek()? else {
                self.decoder.end_replay(replay, sink);
                self.replay = None;
                return Ok(());
            };
            if !sink.has_room_for(message.len()) {
                break;
            }
            left = left.saturating_sub(message.len());
            if let Some((oid, full)) = self.decoder.followed(message)
                && let Some(client) = client
            {
                let found = look_up(client, oid, full).await?;
                self.decoder.look_up(oid, found);
            }
            self.decoder.replayed(message, sink)?;
            replay.advance();
        }
        Ok(())
    }
}

/// What the catalog says of a relation. `full` is whether it has REPLICA IDENTITY FULL.
async fn look_up(client: &Client, oid: u32, full: bool) -> Result<LookedUp> {
    let primary_key = if full { Some(primary_key(client, oid).await?) } else { None };
    let attributes = attributes::read(client, oid).await?.into();
    Ok(LookedUp { primary_key, attributes })
}

/// Handles one message of the protocol. What it returns is to be handled before the next one.
fn handle(
    decoder: &mut Decoder,
    slot: &str,
    tag: u8,
    body: &[u8],
    sink: &mut dyn ChangeSink,
) -> Result<Option<Replay>> {
    match tag {
        b'd' => match body.first() {
            Some(b'w') => match body.get(XLOG_DATA_HEADER..) {
                Some(message) => decoder.message(message, sink),
                None => Err(malformed(&Malformed::Short { what: "XLogData" })),
            },
            Some(b'k') => {
                let end =
                    Reader::new(body.get(1..).unwrap_or_default(), "keepalive").u64().map_err(|e| malformed(&e))?;
                // Inside a transaction it tells nothing: the server has decoded further than it has sent. One that is in progress
                // ends beyond.
                if !decoder.is_inside() {
                    decoder.idle(Lsn(end), sink);
                }
                Ok(None)
            }
            byte => Err(malformed(&Malformed::Byte {
                what: "kind of replication message",
                byte: byte.copied().unwrap_or(0),
            })),
        },
        backend::ERROR_RESPONSE_TAG => Err(stream_error(slot, &ServerError::from_body(body))),
        backend::NOTICE_RESPONSE_TAG | backend::PARAMETER_STATUS_TAG => Ok(None),
        // The server ends the stream when it is shut down.
        backend::COPY_DONE_TAG | backend::COMMAND_COMPLETE_TAG | backend::READY_FOR_QUERY_TAG => {
            Err(Error::new(ErrorKind::Retry, "the server ended the replication stream"))
        }
        other => Err(malformed(&Malformed::Type(other))),
    }
}

fn malformed(error: &Malformed) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the replication stream of Postgres is not what its protocol says: {error}"))
}

/// Names of the primary key's columns now, in no order; none where there is no usable one.
async fn primary_key(client: &Client, oid: u32) -> Result<Vec<String>> {
    const QUERY: &str = "SELECT a.attname::text FROM pg_index i \
         JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) \
         WHERE i.indrelid = $1 AND i.indisprimary AND i.indimmediate AND i.indisvalid";
    let failed = |error: tokio_postgres::Error| sql_error("cannot look up a primary key", &error);
    let rows = client.query(QUERY, &[&oid]).await.map_err(failed)?;
    rows.iter().map(|row| row.try_get(0).map_err(failed)).collect()
}

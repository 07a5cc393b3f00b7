//! The stream of the binary log: asked for from a position, read ahead of the decoder within a bound, checksums checked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use calve_core::{Error, ErrorKind, LastGtid, MariaDbPoint, Position, Result};
use futures::{FutureExt, StreamExt};
use mysql_async::binlog::events::Event;
use mysql_async::prelude::Queryable;
use mysql_async::{BinlogStream, BinlogStreamRequest, GnoInterval, Sid};
use mysql_common::packets::Tag;
use sha2::Digest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::binlog::Flavour;
use crate::binlog::event::{Header, kind, verify_checksum};
use crate::connection;
use crate::error::sql_error;
use crate::settings::MySqlSettings;
use crate::standstill::Standstill;

/// The server says after this long without an event that it is alive, and where its log stands.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Without a word for this long the connection is dead.
const SILENCE: Duration = Duration::from_mins(2);

/// Events that have arrived are handed over together up to this many bytes: waking the reader costs more than an event does.
const BATCH_BYTES: usize = 256 << 10;

/// Events as they came, and their share of the bound.
struct Batch {
    events: VecDeque<Event>,
    _share: OwnedSemaphorePermit,
}

/// A running stream. Dropping it ends its connection.
pub(crate) struct BinlogReader {
    batches: mpsc::Receiver<Result<Batch>>,
    task: JoinHandle<()>,
    /// Taken out of the channel and not handled yet.
    batch: Option<Batch>,
}

impl Drop for BinlogReader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl BinlogReader {
    /// Starts reading. `position` is where to begin; without `again` its last transaction is not sent again.
    pub(crate) async fn open(
        settings: &MySqlSettings,
        position: &Position,
        again: Option<&LastGtid>,
        replica: Replica,
    ) -> Result<Self> {
        let stream = dump(settings, position, again, replica).await?;
        let flavour = if matches!(position, Position::MariaDb(_)) { Flavour::MariaDb } else { Flavour::MySql };
        let standstill = (replica == Replica::Pipeline).then(|| Standstill::watch(settings, flavour));
        let (sender, batches) = mpsc::channel(64);
        let limit = settings.read_ahead_bytes.clamp(1 << 16, u32::MAX as usize >> 1);
        let task = tokio::spawn(read(stream, sender, Arc::new(Semaphore::new(limit)), limit, standstill));
        Ok(Self { batches, task, batch: None })
    }

    /// Waits until there is an event. Cancel-safe.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        if self.present().is_none() {
            self.batch = Some(self.batches.recv().await.unwrap_or_else(|| Err(ended()))?);
        }
        Ok(())
    }

    /// Waits for the next event; None at the end of what is there.
    pub(crate) async fn next_of_all(&mut self) -> Result<Option<Arrived>> {
        if self.present().is_none() {
            match self.batches.recv().await {
                Some(batch) => self.batch = Some(batch?),
                None => return Ok(None),
            }
        }
        Ok(self.take())
    }

    /// The event is to be taken again.
    pub(crate) fn put_back(&mut self, event: Arrived) {
        if let Some(batch) = &mut self.batch {
            batch.events.push_front(event.0);
        }
    }

    /// The next event of those that came together; [`ready`](Self::ready) waits for more.
    pub(crate) fn take(&mut self) -> Option<Arrived> {
        self.present().and_then(|batch| batch.events.pop_front()).map(Arrived)
    }

    /// The batch at hand. One that is used up gives its share back before another is waited for: an event that is larger than
    /// the bound needs all of it.
    fn present(&mut self) -> Option<&mut Batch> {
        self.batch.take_if(|batch| batch.events.is_empty());
        self.batch.as_mut()
    }
}

/// An event that came.
pub(crate) struct Arrived(Event);

impl Arrived {
    pub(crate) fn header(&self) -> Header {
        header(&self.0)
    }

    /// What follows the header, without the checksum.
    pub(crate) fn body(&self) -> &[u8] {
        self.0.data()
    }
}

fn ended() -> Error {
    Error::new(ErrorKind::Retry, "the replication connection was lost")
}

fn header(event: &Event) -> Header {
    let header = event.header();
    Header {
        timestamp: header.timestamp(),
        kind: header.event_type_raw(),
        server_id: header.server_id(),
        size: header.event_size(),
        log_pos: header.log_pos(),
        flags: header.flags_raw(),
    }
}

async fn read(
    stream: BinlogStream,
    sender: mpsc::Sender<Result<Batch>>,
    bound: Arc<Semaphore>,
    limit: usize,
    standstill: Option<Standstill>,
) {
    let mut incoming = Incoming { stream, standstill, unpacked: false };
    loop {
        // What is read next needs room as well: one event that takes the whole bound is in memory at a time.
        match bound.acquire().await {
            Ok(room) => drop(room),
            Err(_) => return,
        }
        let silent = || Some(Err(Error::new(ErrorKind::Retry, "the server said nothing for two minutes")));
        let mut arrived = Some(tokio::time::timeout(SILENCE, incoming.next()).await.unwrap_or_else(|_| silent()));
        let (mut events, mut bytes, mut end) = (VecDeque::new(), 0, None);
        while let Some(event) = arrived {
            match event {
                Some(Ok(event)) => {
                    bytes += event.data().len().max(1);
                    events.push_back(event);
                }
                // A searcher is at the end.
                None => {
                    end = Some(Ok(()));
                    break;
                }
                Some(Err(error)) => {
                    end = Some(Err(error));
                    break;
                }
            }
            arrived = if bytes < BATCH_BYTES { incoming.next().now_or_never() } else { None };
        }
        if !events.is_empty() {
            // What is beyond the whole bound passes alone.
            let share = u32::try_from(bytes.min(limit)).unwrap_or(u32::MAX);
            let Ok(share) = Arc::clone(&bound).acquire_many_owned(share).await else { return };
            if sender.send(Ok(Batch { events, _share: share })).await.is_err() {
                return;
            }
        }
        match end {
            None => {}
            Some(Ok(())) => return,
            Some(Err(error)) => {
                // The receiver may be gone; then nobody needs to know.
                let _ = sender.send(Err(error)).await;
                return;
            }
        }
    }
}

/// Events from the connection, checked.
struct Incoming {
    stream: BinlogStream,
    standstill: Option<Standstill>,
    /// The events of a compressed transaction that the library unpacked come next.
    unpacked: bool,
}

impl Incoming {
    /// The next event; None at the end of the log. Cancel-safe: an event that came is returned without a pause.
    async fn next(&mut self) -> Option<Result<Event>> {
        loop {
            let event = match self.stream.next().await? {
                Err(error) => return Some(Err(sql_error("cannot read the binary log", &error))),
                Ok(event) => event,
            };
            let kind = event.header().event_type_raw();
            // The client library unpacks a compressed transaction and brings what is in it after it; that is done here too, with
            // its lengths checked, so those are left out. What follows a transaction is none of its events.
            if self.unpacked && !stands_outside(kind) {
                continue;
            }
            self.unpacked = kind == kind::TRANSACTION_PAYLOAD;
            return Some(check(event).and_then(|event| {
                if let Some(standstill) = &mut self.standstill {
                    standstill.event(&header(&event), event.data())?;
                }
                Ok(event)
            }));
        }
    }
}

/// Whether an event of this kind can follow a compressed transaction in the log.
fn stands_outside(kind: u8) -> bool {
    matches!(
        kind,
        kind::GTID
            | kind::ANONYMOUS_GTID
            | kind::GTID_TAGGED
            | kind::TRANSACTION_PAYLOAD
            | kind::ROTATE
            | kind::FORMAT_DESCRIPTION
            | kind::PREVIOUS_GTIDS
            | kind::HEARTBEAT
            | kind::HEARTBEAT_V2
            | kind::STOP
            | kind::INCIDENT
    )
}

/// Refuses an event whose bytes are not those that its checksum was made of.
fn check(event: Event) -> Result<Event> {
    let (Ok(Some(algorithm)), Some(found)) = (event.footer().get_checksum_alg(), event.checksum()) else {
        return Ok(event);
    };
    let header = header(&event);
    // The library keeps the algorithm's byte of a format description apart.
    let description = (header.kind == kind::FORMAT_DESCRIPTION).then(|| [event.data(), &[algorithm as u8]].concat());
    let body = description.as_deref().unwrap_or_else(|| event.data());
    match verify_checksum(header, body, u32::from_le_bytes(found)) {
        Ok(()) => Ok(event),
        Err(error) => Err(Error::new(
            ErrorKind::Retry,
            format!(
                "an event of the binary log that ends at {} was damaged on its way or on the server's disk: {error}",
                header.log_pos
            ),
        )),
    }
}

/// As whom a stream registers with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replica {
    /// The pipeline: a connection that is left over of an earlier run is ended by the server.
    Pipeline,
    /// Somebody else beside it, for as long as a comparison takes.
    Guest,
    /// As a guest, up to the end of what is there.
    Searcher,
}

/// Connects and asks for the log.
async fn dump(
    settings: &MySqlSettings,
    position: &Position,
    again: Option<&LastGtid>,
    replica: Replica,
) -> Result<BinlogStream> {
    let mut conn = connection::open(&settings.connect).await?;
    let failed = |error: mysql_async::Error| sql_error("cannot set up the stream of the binary log", &error);
    let server_id = match replica {
        Replica::Pipeline => settings.server_id,
        Replica::Guest | Replica::Searcher => settings.server_id ^ (1 + (std::process::id() & 0xFFFF)),
    };
    let uuid = replica_uuid(settings, server_id);
    let nanoseconds = HEARTBEAT.as_nanos();
    // Both servers under their names of every time.
    conn.query_drop(format!(
        "SET @master_heartbeat_period = {nanoseconds}, @source_heartbeat_period = {nanoseconds}, @slave_uuid = '{uuid}', \
         @replica_uuid = '{uuid}'"
    ))
    .await
    .map_err(failed)?;
    let hostname = b"calve".as_slice();
    let request = BinlogStreamRequest::new(server_id).with_hostname(hostname);
    let stream = match position {
        Position::MySql(at) => {
            let mut wanted = at.executed.difference(&at.open);
            if let Some(last) = again {
                wanted.remove(&last.source, last.number);
            }
            let sids = wanted.sources().map(|(source, intervals)| {
                let intervals =
                    intervals.iter().map(|interval| GnoInterval::new(interval.start, interval.end)).collect();
                let sid = Sid::new(source.server.into_bytes()).with_intervals(intervals);
                match Tag::new(source.tag.clone()) {
                    Ok(tag) if !source.tag.is_empty() => sid.with_tag(tag),
                    _ => sid,
                }
            });
            let sids: Vec<Sid<'_>> = sids.collect();
            conn.get_binlog_stream(request.with_gtid().with_gtid_set(sids)).await
        }
        Position::MariaDb(at) => {
            let state = |(domain, point): (&u32, &MariaDbPoint)| {
                let from = point.resume.unwrap_or(Some(point.applied))?;
                Some(format!("{domain}-{}-{}", from.server, from.sequence))
            };
            let state: Vec<String> = at.domains.iter().filter_map(state).collect();
            conn.query_drop(format!(
                "SET @mariadb_slave_capability = 4, @slave_gtid_strict_mode = 1, @slave_gtid_ignore_duplicates = 0, \
                 @slave_connect_state = '{}'",
                state.join(",")
            ))
            .await
            .map_err(failed)?;
            conn.get_binlog_stream(request).await
        }
        Position::Binlog(at) => {
            let from = at.resume.as_ref().unwrap_or(&at.applied);
            if from.offset > u64::from(u32::MAX) {
                return Err(Error::new(
                    ErrorKind::SourceGone,
                    format!(
                        "the place {from} is beyond what a server without GTIDs can be asked for (4 GiB); set gtid_mode = ON, \
                         then run `calve reload --all`"
                    ),
                ));
            }
            conn.query_drop("SET @mariadb_slave_capability = 4").await.map_err(failed)?;
            let request = if replica == Replica::Searcher { request.with_non_blocking() } else { request };
            conn.get_binlog_stream(request.with_filename(from.file.as_bytes()).with_pos(from.offset)).await
        }
        Position::Postgres(_) => {
            return Err(Error::new(ErrorKind::Config, format!("{position} is no position of MySQL or MariaDB")));
        }
    };
    stream.map_err(|error| sql_error("cannot start the stream of the binary log", &error))
}

/// The same for the same replica at every start: a server ends the older of two streams of one replica.
fn replica_uuid(settings: &MySqlSettings, server_id: u32) -> uuid::Uuid {
    let hash = sha2::Sha256::digest(format!("{}\0{server_id}", settings.connect.host_port()).as_bytes());
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(hash.iter()) {
        *to = *from;
    }
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

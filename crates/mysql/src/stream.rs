//! The stream of the binary log: asked for from a position, read ahead of the decoder within a bound, checksums checked.

use std::sync::Arc;
use std::time::Duration;

use calve_core::{Error, ErrorKind, LastGtid, MariaDbPoint, Position, Result};
use futures::StreamExt;
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

/// An event as it came, and its share of the bound.
struct Packet {
    event: Event,
    _share: OwnedSemaphorePermit,
}

/// A running stream. Dropping it ends its connection.
pub(crate) struct BinlogReader {
    packets: mpsc::Receiver<Result<Packet>>,
    task: JoinHandle<()>,
    /// Taken out of the channel and not handled yet.
    next: Option<Packet>,
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
        let (sender, packets) = mpsc::channel(1024);
        let limit = settings.read_ahead_bytes.clamp(1 << 16, u32::MAX as usize >> 1);
        let task = tokio::spawn(read(stream, sender, Arc::new(Semaphore::new(limit)), limit, standstill));
        Ok(Self { packets, task, next: None })
    }

    /// Waits until there is an event. Cancel-safe.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        if self.next.is_none() {
            self.next = Some(self.packets.recv().await.unwrap_or_else(|| Err(ended()))?);
        }
        Ok(())
    }

    /// Waits for the next event; None at the end of what is there.
    pub(crate) async fn next_of_all(&mut self) -> Result<Option<Arrived>> {
        match self.packets.recv().await {
            Some(packet) => packet.map(|packet| Some(Arrived(packet))),
            None => Ok(None),
        }
    }

    /// The event is to be taken again.
    pub(crate) fn put_back(&mut self, event: Arrived) {
        self.next = Some(event.0);
    }

    /// The next event, if it has come.
    pub(crate) fn take(&mut self) -> Result<Option<Arrived>> {
        if let Some(packet) = self.next.take() {
            return Ok(Some(Arrived(packet)));
        }
        match self.packets.try_recv() {
            Ok(packet) => packet.map(|packet| Some(Arrived(packet))),
            Err(mpsc::error::TryRecvError::Empty) => Ok(None),
            Err(mpsc::error::TryRecvError::Disconnected) => Err(ended()),
        }
    }
}

/// An event that came.
pub(crate) struct Arrived(Packet);

impl Arrived {
    pub(crate) fn header(&self) -> Header {
        header(&self.0.event)
    }

    /// What follows the header, without the checksum.
    pub(crate) fn body(&self) -> &[u8] {
        self.0.event.data()
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
    mut stream: BinlogStream,
    sender: mpsc::Sender<Result<Packet>>,
    bound: Arc<Semaphore>,
    limit: usize,
    mut standstill: Option<Standstill>,
) {
    let mut unpacked = false;
    loop {
        let packet = match tokio::time::timeout(SILENCE, stream.next()).await {
            Err(_) => Err(Error::new(ErrorKind::Retry, "the server said nothing for two minutes")),
            // A searcher is at the end.
            Ok(None) => return,
            Ok(Some(Err(error))) => Err(sql_error("cannot read the binary log", &error)),
            Ok(Some(Ok(event))) => Ok(event),
        };
        if let Ok(event) = &packet {
            let kind = event.header().event_type_raw();
            // The client library unpacks a compressed transaction and brings what is in it after it; that is done here too, with
            // its lengths checked, so those are left out. What follows a transaction is none of its events.
            if unpacked && !stands_outside(kind) {
                continue;
            }
            unpacked = kind == kind::TRANSACTION_PAYLOAD;
        }
        let packet = packet.and_then(check).and_then(|event| {
            if let Some(standstill) = &mut standstill {
                standstill.event(&header(&event), event.data())?;
            }
            Ok(event)
        });
        let packet = match packet {
            Ok(event) => {
                // An event beyond the whole bound passes alone.
                let bytes = event.data().len().clamp(1, limit);
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                match Arc::clone(&bound).acquire_many_owned(bytes).await {
                    Ok(share) => Ok(Packet { event, _share: share }),
                    Err(_) => return,
                }
            }
            Err(error) => Err(error),
        };
        let last = packet.is_err();
        if sender.send(packet).await.is_err() || last {
            return;
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

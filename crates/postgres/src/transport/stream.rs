//! The stream of WAL once it flows: a task owns the socket, reads large blocks ahead, and answers the server.
//!
//! The server ends a connection that it has not heard from within `wal_sender_timeout`. Whoever consumes the stream may be
//! held back for minutes by a slow lake, so the answers do not come from there: the task sends them unasked, all the time,
//! whether or not it can read. What they report as flushed is what was [acknowledged](WalStream::acknowledge), never more.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use calve_core::{Lsn, Result};
use futures::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::connection::{ReplicationConnection, lost};
use crate::socket::Wire;

/// A block is handed over at about this size, or as soon as nothing more is there to read.
const BLOCK_SIZE: usize = 256 * 1024;
/// Room made for one read.
const READ_SIZE: usize = 64 * 1024;
/// The server sends every change by itself. After a read that brought less than this, more is let gather before the next look:
/// being woken for each costs several times what is done with it.
const RICH_READ: usize = 32 * 1024;
/// How long it may gather, and so how much later a lone change arrives. Runtime timers know no less.
const REST: Duration = Duration::from_millis(1);
/// The same while the server sends as fast as it can: what gathers meanwhile is less than a block.
const REST_IN_FLOW: Duration = Duration::from_millis(4);
/// Tag, length.
const FRAME_HEADER: usize = 5;
/// Microseconds from 1970-01-01 to 2000-01-01, where Postgres counts from.
const POSTGRES_EPOCH_US: u64 = 946_684_800_000_000;

/// How the stream's task behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamSettings {
    /// A status goes out at least this often.
    pub(crate) status_interval: Duration,
    /// With nothing heard for this long the server is asked to answer.
    pub(crate) ping_after: Duration,
    /// With nothing heard for this long the server is taken for dead.
    pub(crate) dead_after: Duration,
    /// Bytes read ahead of the consumer.
    pub(crate) read_ahead: usize,
}

/// Two acknowledgements in a hurry are worth one message.
const ACKNOWLEDGE_INTERVAL: Duration = Duration::from_millis(200);

/// Whole messages, one after the other, and their share of the memory allowed.
pub(crate) struct Block {
    bytes: Bytes,
    _memory: OwnedSemaphorePermit,
}

impl Block {
    /// The next message without taking it.
    pub(crate) fn peek(&self) -> Option<(u8, &[u8])> {
        let length = frame_length(&self.bytes).ok()??;
        Some((*self.bytes.first()?, self.bytes.get(FRAME_HEADER..length)?))
    }

    /// Drops the message that was seen last.
    pub(crate) fn advance(&mut self) {
        match frame_length(&self.bytes) {
            Ok(Some(length)) if length <= self.bytes.len() => self.bytes.advance(length),
            _ => self.bytes.clear(),
        }
    }
}

/// Length of the message at the start, header included. None while the header is not there whole.
fn frame_length(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some(&[_, a, b, c, d]) = bytes.first_chunk::<FRAME_HEADER>() else { return Ok(None) };
    // The length counts itself, not the tag.
    match usize::try_from(i32::from_be_bytes([a, b, c, d])) {
        Ok(length @ 4..) => Ok(Some(length + 1)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the server sent a message with an impossible length")),
    }
}

/// The consumer's end.
pub(crate) struct WalStream {
    blocks: mpsc::Receiver<Result<Block>>,
    acknowledged: watch::Sender<Lsn>,
    end: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl WalStream {
    /// Takes over a connection on which `START_REPLICATION` succeeded. `acknowledged` is what the server knows already.
    pub(crate) fn spawn(connection: ReplicationConnection, acknowledged: Lsn, settings: StreamSettings) -> Self {
        let (wire, input) = connection.into_parts();
        let (block_sender, blocks) = mpsc::channel(64);
        let (acknowledge, acknowledged) = watch::channel(acknowledged);
        let (end, ended) = oneshot::channel();
        let flushed = *acknowledged.borrow();
        let pump = Pump {
            wire,
            input,
            blocks: block_sender,
            memory: Arc::new(Semaphore::new(settings.read_ahead)),
            acknowledged,
            settings,
            received: flushed,
            told: flushed,
            sent: Instant::now(),
            heard: Instant::now(),
            pinged: false,
            reply_due: true,
            rest_until: None,
            scratch: vec![0; READ_SIZE].into(),
        };
        let task = tokio::spawn(pump.run(ended));
        Self { blocks, acknowledged: acknowledge, end: Some(end), task }
    }

    /// The next block; waits for it. Cancel-safe. None once the task ended after an error was handed over.
    pub(crate) async fn next(&mut self) -> Option<Result<Block>> {
        self.blocks.recv().await
    }

    /// The server may forget what is before `lsn`.
    pub(crate) fn acknowledge(&self, lsn: Lsn) {
        self.acknowledged.send_if_modified(|acknowledged| {
            let further = lsn > *acknowledged;
            *acknowledged = lsn.max(*acknowledged);
            further
        });
    }

    /// Tells the server the last acknowledgement and ends the stream in order.
    pub(crate) async fn close(mut self) {
        if let Some(end) = self.end.take() {
            let _ = end.send(());
        }
        // Blocks that nobody takes any more must not hold the task.
        self.blocks.close();
        while self.blocks.recv().await.is_some() {}
        let _ = (&mut self.task).await;
    }
}

impl Drop for WalStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task's state.
struct Pump {
    wire: Wire,
    /// Read and not handed over: at most one incomplete message, and up to a block before it.
    input: BytesMut,
    blocks: mpsc::Sender<Result<Block>>,
    memory: Arc<Semaphore>,
    acknowledged: watch::Receiver<Lsn>,
    settings: StreamSettings,
    /// The greatest end of WAL the server spoke of.
    received: Lsn,
    /// What the server was told is flushed, and when.
    told: Lsn,
    sent: Instant,
    /// When something was read last, or reading became possible again.
    heard: Instant,
    pinged: bool,
    /// The server waits for a status.
    reply_due: bool,
    /// When to look again, while more gathers. The wire rests.
    rest_until: Option<Instant>,
    scratch: Box<[u8]>,
}

impl Pump {
    async fn run(mut self, mut ended: oneshot::Receiver<()>) {
        tokio::select! {
            // The consumer leaves; no message that it did not take is missed, since none of them was acknowledged.
            _ = &mut ended => self.leave().await,
            error = async { self.pump().await.err() } => if let Some(error) = error {
                // The receiver may be gone; then nobody needs to know.
                let _ = self.blocks.send(Err(lost(&error))).await;
            },
        }
    }

    async fn leave(&mut self) {
        let mut output = BytesMut::new();
        self.put_status(&mut output, false);
        postgres_protocol::message::frontend::copy_done(&mut output);
        postgres_protocol::message::frontend::terminate(&mut output);
        let farewell = async {
            self.wire.wake()?;
            self.wire.write_all(&output).await?;
            self.wire.flush().await?;
            // Until the server closes too: its walsender has let go of the slot then.
            let mut rest = BytesMut::with_capacity(READ_SIZE);
            while self.wire.read_buf(&mut rest).await? > 0 {
                rest.clear();
            }
            io::Result::Ok(())
        };
        if !matches!(tokio::time::timeout(Duration::from_secs(5), farewell).await, Ok(Ok(()))) {
            tracing::debug!("the replication connection did not end in order");
        }
    }

    /// Runs until the connection fails or the consumer is gone.
    async fn pump(&mut self) -> io::Result<()> {
        let mut ready: Option<Bytes> = self.cut()?;
        loop {
            if self.reply_due {
                self.send_status(false).await?;
            }
            let (reading, resting) = (ready.is_none() && self.rest_until.is_none(), self.rest_until);
            let news = *self.acknowledged.borrow() > self.told;
            let status_due = self.sent + if news { ACKNOWLEDGE_INTERVAL } else { self.settings.status_interval };
            let silence_due =
                self.heard + if self.pinged { self.settings.dead_after } else { self.settings.ping_after };
            // Every arm can be dropped at any await: reads and reservations that did not complete leave nothing behind.
            let turn = tokio::select! {
                room = room(&self.blocks, &self.memory, ready.as_ref(), self.settings.read_ahead) => Turn::Room(room),
                read = read_block(&mut self.wire, &mut self.input), if reading => Turn::Read(read),
                changed = self.acknowledged.changed() => Turn::Acknowledged(changed.is_ok()),
                () = sleep_until(status_due) => Turn::StatusDue,
                () = sleep_until(silence_due), if reading => Turn::Silence,
                () = sleep_until(resting.unwrap_or(status_due)), if resting.is_some() && ready.is_none() => Turn::Rested,
            };
            match turn {
                Turn::Room(Some((slot, memory))) => {
                    if let Some(bytes) = ready.take() {
                        slot.send(Ok(Block { bytes, _memory: memory }));
                        self.heard = Instant::now();
                        ready = self.cut()?;
                    }
                }
                Turn::Room(None) | Turn::Acknowledged(false) => return Ok(()),
                Turn::Read(read) => {
                    read?;
                    self.heard = Instant::now();
                    self.pinged = false;
                    if self.input.len() < RICH_READ {
                        self.wire.rest()?;
                        self.rest_until = Some(self.heard + REST);
                    } else {
                        ready = self.cut()?;
                    }
                }
                Turn::Rested => {
                    let over = self.look_again()?;
                    ready = self.cut()?;
                    // What came before the end is handed over first; the end is met again by the next look.
                    if over && ready.is_none() {
                        return Err(ended());
                    }
                }
                // Goes out when the interval is over, which the next turn waits for.
                Turn::Acknowledged(true) => {}
                Turn::StatusDue => self.reply_due = true,
                Turn::Silence if self.pinged => {
                    let seconds = self.settings.dead_after.as_secs();
                    let message = format!("nothing was heard from the server for {seconds} s");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
                Turn::Silence => {
                    self.pinged = true;
                    self.send_status(true).await?;
                }
            }
        }
    }

    /// Reads what gathered during the rest, and decides on another one: while changes keep coming the wire is not waited at.
    /// True where the server closed it.
    fn look_again(&mut self) -> io::Result<bool> {
        let before = self.input.len();
        let mut over = false;
        // Of a message that is larger than a block a part may be here already.
        while self.input.len() - before < BLOCK_SIZE && !over {
            match self.wire.read_ready(&mut self.input, &mut self.scratch)? {
                Some(length) => over = length == 0,
                None => break,
            }
        }
        let more = self.input.len() - before;
        if more > 0 {
            self.heard = Instant::now();
        }
        self.rest_until = if more >= BLOCK_SIZE {
            // There is more at once.
            Some(self.heard)
        } else if more >= RICH_READ {
            Some(self.heard + REST_IN_FLOW)
        } else if more > 0 || over {
            Some(Instant::now() + REST)
        } else {
            self.wire.wake()?;
            None
        };
        Ok(over)
    }

    /// Cuts the whole messages off the input, noting what concerns the conversation itself.
    fn cut(&mut self) -> io::Result<Option<Bytes>> {
        let mut end = 0;
        while let Some(length) = frame_length(self.input.get(end..).unwrap_or_default())? {
            let Some(frame) = self.input.get(end..end + length) else { break };
            if let [b'd', _, _, _, _, kind, body @ ..] = frame {
                // XLogData: start, end, clock. Keepalive: end, clock, whether an answer is wanted.
                let end = match kind {
                    b'w' => body.get(8..).and_then(<[u8]>::first_chunk),
                    b'k' => body.first_chunk(),
                    _ => None,
                };
                if let Some(end) = end {
                    self.received = self.received.max(Lsn(u64::from_be_bytes(*end)));
                }
                self.reply_due |= *kind == b'k' && body.get(16) == Some(&1);
            }
            end += length;
        }
        Ok((end > 0).then(|| self.input.split_to(end).freeze()))
    }

    /// Standby status update: written, flushed, applied, clock, whether an answer is wanted.
    fn put_status(&mut self, output: &mut BytesMut, ping: bool) {
        const LENGTH: u32 = 4 + 1 + 4 * 8 + 1;
        let flushed = *self.acknowledged.borrow_and_update();
        self.told = flushed;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let clock = u64::try_from(now).unwrap_or(u64::MAX).saturating_sub(POSTGRES_EPOCH_US);
        output.put_u8(b'd');
        output.put_u32(LENGTH);
        output.put_u8(b'r');
        output.put_u64(self.received.max(flushed).0);
        output.put_u64(flushed.0);
        output.put_u64(flushed.0);
        output.put_u64(clock);
        output.put_u8(u8::from(ping));
    }

    async fn send_status(&mut self, ping: bool) -> io::Result<()> {
        let mut output = BytesMut::with_capacity(64);
        self.put_status(&mut output, ping);
        self.wire.wake()?;
        self.wire.write_all(&output).await?;
        self.wire.flush().await?;
        self.sent = Instant::now();
        self.reply_due = false;
        Ok(())
    }
}

/// What the task woke up for.
enum Turn {
    Room(Option<Room>),
    Read(io::Result<()>),
    Acknowledged(bool),
    StatusDue,
    Silence,
    Rested,
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")
}

/// A place in the channel and the memory for one block.
type Room = (mpsc::OwnedPermit<Result<Block>>, OwnedSemaphorePermit);

/// Waits for room for the block; for ever where there is none. None: the consumer is gone.
async fn room(
    blocks: &mpsc::Sender<Result<Block>>,
    memory: &Arc<Semaphore>,
    block: Option<&Bytes>,
    read_ahead: usize,
) -> Option<Room> {
    let Some(block) = block else { return pending().await };
    // A message larger than all the memory allowed passes when nothing else is held.
    let share = u32::try_from(block.len().min(read_ahead)).unwrap_or(u32::MAX);
    let slot = blocks.clone().reserve_owned().await.ok()?;
    let memory = Arc::clone(memory).acquire_many_owned(share).await.ok()?;
    Some((slot, memory))
}

/// Reads what is there, up to a block; waits for the first byte only.
async fn read_block(wire: &mut Wire, input: &mut BytesMut) -> io::Result<()> {
    input.reserve(READ_SIZE);
    if wire.read_buf(input).await? == 0 {
        return Err(ended());
    }
    while input.len() < BLOCK_SIZE {
        input.reserve(READ_SIZE);
        match wire.read_buf(input).now_or_never() {
            // The end of the stream is met again by the next read.
            Some(Ok(0)) | None => break,
            Some(read) => _ = read?,
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;

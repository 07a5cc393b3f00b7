//! The stream's task against a server that the tests play.

use std::time::Duration;

use calve_core::{ErrorKind, Lsn};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};

use super::*;
use crate::socket::Wire;

const SETTINGS: StreamSettings = StreamSettings {
    status_interval: Duration::from_millis(50),
    ping_after: Duration::from_secs(30),
    dead_after: Duration::from_mins(1),
    read_ahead: 64 * 1024,
};

/// A stream that starts acknowledged at 100, and the server's end of it.
fn stream(settings: StreamSettings) -> (WalStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (WalStream::spawn(ReplicationConnection::over(Wire::Unix(ours)), Lsn(100), settings), theirs)
}

fn copy_data(body: &[u8]) -> Vec<u8> {
    let mut message = vec![b'd'];
    message.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
    message.extend(body);
    message
}

/// `XLogData` that ends at `end` with a content of this many bytes.
fn wal(end: u64, length: usize) -> Vec<u8> {
    let mut body = vec![b'w'];
    body.extend(0_u64.to_be_bytes());
    body.extend(end.to_be_bytes());
    body.extend(0_u64.to_be_bytes());
    body.extend(vec![7; length]);
    copy_data(&body)
}

fn keepalive(end: u64, reply: bool) -> Vec<u8> {
    let mut body = vec![b'k'];
    body.extend(end.to_be_bytes());
    body.extend(0_u64.to_be_bytes());
    body.push(u8::from(reply));
    copy_data(&body)
}

#[derive(Debug, PartialEq, Eq)]
struct Status {
    written: u64,
    flushed: u64,
    applied: u64,
    ping: bool,
}

/// The next standby status update.
async fn status(server: &mut UnixStream) -> Status {
    let mut message = [0; 39];
    timeout(Duration::from_secs(20), server.read_exact(&mut message)).await.expect("a status comes").unwrap();
    assert_eq!(message[..6], [b'd', 0, 0, 0, 38, b'r']);
    let lsn = |at: usize| u64::from_be_bytes(message[at..at + 8].try_into().unwrap());
    Status { written: lsn(6), flushed: lsn(14), applied: lsn(22), ping: message[38] == 1 }
}

#[tokio::test]
async fn the_server_hears_from_a_reader_that_takes_nothing() {
    let (mut stream, mut server) = stream(SETTINGS);
    assert_eq!(status(&mut server).await, Status { written: 100, flushed: 100, applied: 100, ping: false });
    // Until nothing more goes through: the reader is full, and so is what lies between.
    let message = wal(500, 8 * 1024);
    let mut sent = 0_usize;
    while timeout(Duration::from_millis(300), server.write_all(&message)).await.is_ok() {
        sent += message.len();
        assert!(sent < 8 << 20, "the reader takes in more than it may");
    }
    for _ in 0..5 {
        let status = status(&mut server).await;
        assert_eq!(
            (status.flushed, status.applied, status.ping),
            (100, 100, false),
            "only what was acknowledged is told"
        );
    }
    let mut taken = 0;
    while taken < sent {
        let mut block = timeout(Duration::from_secs(20), stream.next()).await.unwrap().unwrap().unwrap();
        while let Some((tag, body)) = block.peek() {
            assert_eq!((tag, body.len()), (b'd', message.len() - 5));
            taken += body.len() + 5;
            block.advance();
        }
    }
}

#[tokio::test]
async fn acknowledgements_are_told_soon_and_never_taken_back() {
    let slow = StreamSettings { status_interval: Duration::from_secs(30), ..SETTINGS };
    let (stream, mut server) = stream(slow);
    status(&mut server).await;
    let begun = Instant::now();
    stream.acknowledge(Lsn(250));
    stream.acknowledge(Lsn(200));
    assert_eq!(status(&mut server).await.flushed, 250);
    assert!(begun.elapsed() < Duration::from_secs(10));
    server.write_all(&keepalive(900, true)).await.unwrap();
    assert_eq!(status(&mut server).await, Status { written: 900, flushed: 250, applied: 250, ping: false });
    stream.acknowledge(Lsn(300));
    let closing = tokio::spawn(stream.close());
    assert_eq!(status(&mut server).await.flushed, 300);
    let mut farewell = [0; 10];
    loop {
        server.read_exact(&mut farewell[..1]).await.unwrap();
        if farewell[0] == b'c' {
            break;
        }
        // The acknowledgement may have gone out by itself before the stream was closed.
        let mut rest = [0; 38];
        server.read_exact(&mut rest).await.unwrap();
    }
    server.read_exact(&mut farewell[..9]).await.unwrap();
    assert_eq!(farewell[..9], [0, 0, 0, 4, b'X', 0, 0, 0, 4], "CopyDone, Terminate");
    drop(server);
    closing.await.unwrap();
}

#[tokio::test]
async fn a_silent_server_is_asked_and_then_given_up() {
    let impatient =
        StreamSettings { ping_after: Duration::from_millis(300), dead_after: Duration::from_secs(2), ..SETTINGS };
    let quiet = StreamSettings { status_interval: Duration::from_secs(30), ..impatient };
    let (mut stream, mut server) = stream(quiet);
    assert!(!status(&mut server).await.ping);
    assert!(status(&mut server).await.ping, "the server is asked for an answer");
    server.write_all(&keepalive(100, false)).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    assert!(status(&mut server).await.ping, "an answer ends the first silence, and the next one begins");
    let error = timeout(Duration::from_secs(20), stream.next()).await.unwrap().unwrap().err().unwrap();
    assert!(error.kind() == ErrorKind::Retry && error.to_string().contains("nothing was heard"), "{error}");
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn messages_pass_whole_however_they_are_cut() {
    let (mut stream, mut server) = stream(SETTINGS);
    // Larger than everything that may be read ahead, and byte by byte.
    let large = wal(200, 1 << 20);
    let small = keepalive(300, false);
    let writer = tokio::spawn(async move {
        server.write_all(&large).await.unwrap();
        for byte in small {
            server.write_all(&[byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        server
    });
    let mut lengths = Vec::new();
    while lengths.len() < 2 {
        let mut block = timeout(Duration::from_secs(20), stream.next()).await.unwrap().unwrap().unwrap();
        while let Some((_, body)) = block.peek() {
            lengths.push(body.len());
            block.advance();
        }
    }
    assert_eq!(lengths, [25 + (1 << 20), 18]);
    drop(writer.await.unwrap());
    let error = stream.next().await.unwrap().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_larger_than_a_block_passes_where_others_flow() {
    let (mut stream, mut server) = stream(SETTINGS);
    let large = wal(900, 1 << 20);
    let length = large.len();
    let writing = tokio::spawn(async move {
        // So that the wire rests when the large one begins.
        server.write_all(&wal(500, 100)).await.unwrap();
        for piece in large.chunks(300 * 1024) {
            tokio::time::sleep(Duration::from_millis(3)).await;
            server.write_all(piece).await.unwrap();
        }
        server
    });
    let mut taken = Vec::new();
    while taken.last() != Some(&length) {
        let mut block = timeout(Duration::from_secs(20), stream.next()).await.unwrap().unwrap().unwrap();
        while let Some((_, body)) = block.peek() {
            taken.push(body.len() + FRAME_HEADER);
            block.advance();
        }
    }
    assert_eq!(taken.len(), 2);
    drop(writing.await.unwrap());
}

#[tokio::test]
async fn impossible_lengths_end_the_stream() {
    for length in [0_u32, 3, 1 << 31, u32::MAX] {
        let (mut stream, mut server) = stream(SETTINGS);
        let mut message = vec![b'd'];
        message.extend(length.to_be_bytes());
        server.write_all(&message).await.unwrap();
        let error = timeout(Duration::from_secs(20), stream.next()).await.unwrap().unwrap().err().unwrap();
        assert!(error.to_string().contains("impossible length"), "{length}: {error}");
    }
}

#[tokio::test]
async fn a_resting_wire_loses_nothing() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut wire = Wire::Unix(ours);
    let (mut input, mut scratch) = (BytesMut::new(), [0; 4]);
    for _ in 0..2 {
        input.clear();
        wire.rest().unwrap();
        assert_eq!(wire.read_ready(&mut input, &mut scratch).unwrap(), None);
        theirs.write_all(b"at rest").await.unwrap();
        assert_eq!(wire.read_ready(&mut input, &mut scratch).unwrap(), Some(4));
        // What was not read yet is there for a reader that waits.
        wire.wake().unwrap();
        wire.read_buf(&mut input).await.unwrap();
        assert_eq!(input, &b"at rest"[..]);
        wire.write_all(b"an answer").await.unwrap();
        let mut answer = [0; 9];
        theirs.read_exact(&mut answer).await.unwrap();
    }
    wire.rest().unwrap();
    assert!(wire.write_all(b"x").await.is_err(), "a wire at rest is not written to");
    drop(theirs);
    assert_eq!(wire.read_ready(&mut input, &mut scratch).unwrap(), Some(0), "the end of the stream is seen at rest");
}

#[tokio::test]
async fn changes_one_by_one_and_statuses_between_them_go_on_together() {
    const CHANGES: u64 = 300;
    let (mut stream, mut server) = stream(StreamSettings { status_interval: Duration::from_millis(1), ..SETTINGS });
    let writer = tokio::spawn(async move {
        for end in 0..CHANGES {
            server.write_all(&wal(end, 100)).await.unwrap();
            if end % 10 == 0 {
                status(&mut server).await;
            }
        }
        server
    });
    let mut ends = Vec::new();
    while (ends.len() as u64) < CHANGES {
        let mut block = timeout(Duration::from_secs(20), stream.next()).await.unwrap().unwrap().unwrap();
        while let Some((_, body)) = block.peek() {
            ends.push(u64::from_be_bytes(body[9..17].try_into().unwrap()));
            block.advance();
        }
    }
    assert!(ends.into_iter().eq(0..CHANGES));
    drop(writer.await.unwrap());
}

#[tokio::test]
async fn what_the_server_says_last_is_heard() {
    for chunk in [1, 8, 1000] {
        // One status, so that none is left unread: closed with something unread, a local socket would lose what it sent.
        let (mut stream, mut server) = stream(StreamSettings { status_interval: Duration::from_secs(30), ..SETTINGS });
        status(&mut server).await;
        let words: Vec<u8> = (0..20).flat_map(|end| wal(end, 100)).collect();
        for piece in words.chunks(chunk) {
            server.write_all(piece).await.unwrap();
        }
        drop(server);
        let mut heard = 0;
        while let Some(Ok(mut block)) = timeout(Duration::from_secs(20), stream.next()).await.unwrap() {
            while block.peek().is_some() {
                heard += 1;
                block.advance();
            }
        }
        assert_eq!(heard, 20, "in pieces of {chunk}");
    }
}

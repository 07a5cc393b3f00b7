//! Clients that read what calve reads, in the same pieces over as many connections, to nowhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::TryStreamExt;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row, Value};
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

use super::source::Source;
use super::taxi::TRIPS;

/// As calve's `parallelism.load`.
const CONNECTIONS: u64 = 2;

/// What a limit took, and how much it read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) wall: Duration,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

/// Statements that read a table together, handed to whoever is free.
struct Pieces {
    statements: Vec<String>,
    next: AtomicU64,
}

impl Pieces {
    fn new(statements: Vec<String>) -> Arc<Self> {
        Arc::new(Self { statements, next: AtomicU64::new(0) })
    }

    fn take(&self) -> Option<&str> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        self.statements.get(usize::try_from(next).ok()?).map(String::as_str)
    }
}

/// Reads the table by COPY in binary form, a range of pages after the other.
pub(super) fn copy(source: &mut Source) -> anyhow::Result<Reading> {
    let pages: u64 = source.sql.value(&format!("select pg_relation_size('{TRIPS}') / 8192"))?.parse()?;
    // The same cut that the load makes: four pieces for each connection, between 16 and 512 MiB.
    let step = pages.div_ceil(CONNECTIONS * 4).clamp(2048, 65_536);
    let piece = |first: u64| {
        let end = if first + step < pages { format!(" and ctid < '({},0)'", first + step) } else { String::new() };
        format!("copy (select * from only {TRIPS} where ctid >= '({first},0)'{end}) to stdout (format binary)")
    };
    let step_by = usize::try_from(step).context("pages of a piece")?;
    let pieces = Pieces::new((0..pages.max(1)).step_by(step_by).map(piece).collect());
    read(&source.plain_url()?, move |url| copy_pieces(url, Arc::clone(&pieces)))
}

async fn copy_pieces(url: String, pieces: Arc<Pieces>) -> anyhow::Result<(u64, u64)> {
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    // It ends with the client. What goes wrong on it is told by the client's next call.
    tokio::spawn(async move { drop(connection.await) });
    let (mut messages, mut bytes) = (0, 0);
    while let Some(statement) = pieces.take() {
        let stream = client.copy_out(statement).await?;
        futures::pin_mut!(stream);
        while let Some(message) = stream.try_next().await? {
            messages += 1;
            bytes += message.len() as u64;
        }
        // The server sends each row as a message, and one for the end; the header comes with the first row.
        messages -= 1;
    }
    Ok((messages, bytes))
}

/// Reads the table in pieces of its key by the binary protocol.
pub(super) fn select(source: &mut Source, rows: u64) -> anyhow::Result<Reading> {
    // As many rows as the load takes at a time.
    const PIECE: usize = 8192;
    let columns = source.sql.rows(&format!(
        "select column_name from information_schema.columns where table_schema = database() and table_name = '{TRIPS}' \
         order by ordinal_position"
    ))?;
    let columns: Vec<String> = columns.into_iter().flatten().flatten().collect();
    let piece = |first: u64| {
        format!(
            "select {} from {TRIPS} force index (primary) where id >= {first} and id < {}",
            columns.join(", "),
            first + PIECE as u64
        )
    };
    let pieces = Pieces::new((1..=rows).step_by(PIECE).map(piece).collect());
    read(&source.plain_url()?, move |url| select_pieces(url, Arc::clone(&pieces)))
}

async fn select_pieces(url: String, pieces: Arc<Pieces>) -> anyhow::Result<(u64, u64)> {
    let options = OptsBuilder::from_opts(Opts::from_url(&url)?).prefer_socket(false);
    let mut conn = Conn::new(options).await?;
    let (mut rows, mut bytes) = (0, 0);
    while let Some(statement) = pieces.take() {
        let mut answer = conn.exec_iter(statement, ()).await?;
        while let Some(row) = answer.next().await? {
            rows += 1;
            bytes += size(&row);
        }
    }
    conn.disconnect().await?;
    Ok((rows, bytes))
}

/// About the bytes of a row on the wire.
fn size(row: &Row) -> u64 {
    let sizes = (0..row.len()).map(|at| match row.as_ref(at) {
        Some(Value::Bytes(bytes)) => bytes.len() as u64 + 1,
        Some(Value::NULL) | None => 0,
        Some(_) => 8,
    });
    sizes.sum()
}

/// Runs a reader on each connection, and waits for all.
fn read<R, F>(url: &str, reader: R) -> anyhow::Result<Reading>
where
    R: Fn(String) -> F,
    F: Future<Output = anyhow::Result<(u64, u64)>> + Send + 'static,
{
    let runtime = Runtime::new()?;
    let started = Instant::now();
    let readers: Vec<_> = (0..CONNECTIONS).map(|_| runtime.spawn(reader(url.to_owned()))).collect();
    let (mut rows, mut bytes) = (0, 0);
    for reader in readers {
        let (read, size) = runtime.block_on(reader)??;
        rows += read;
        bytes += size;
    }
    Ok(Reading { wall: started.elapsed(), rows, bytes })
}

//! Reads whole tables without locking them: some connections, each with a consistent snapshot of its own, take one piece of
//! a table after the other, and the rows meet in a bounded channel.
//!
//! The snapshots are not one: they were taken one after the other, between two positions of the log. What was committed in
//! between is in the rows of one connection and may not be in those of another; it all comes again in the log, so the
//! rows are the table as soon as the changes between the two positions were put on them. Tables without a key, on which none
//! can be put, are locked meanwhile (`locks`).

mod cell;
mod cut;
mod locks;
mod queue;
mod table;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use calve_core::{
    Error, ErrorKind, LoadEvent, LoadReader, Position, Result, RowBuffer, StopReason, TableName, TableSchema,
};
use futures::future;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::config::ConnectConfig;
use crate::connection;
use crate::describe::catalog;
use crate::error::{code, server_error, sql_error};
use crate::merge;
use crate::server::{Flavour, Server};
use cut::{PIECE_ROWS, Range, read_error};
use locks::Locks;
use queue::{Job, Queue};
use table::{LoadTable, PieceFault};

/// A buffer is handed over when it holds this many rows or bytes.
const BUFFER_ROWS: usize = 8192;
const BUFFER_BYTES: usize = 4 << 20;
/// Bytes of a piece that are kept until its locks are released. Nearly every piece is smaller; the rest of a larger one is
/// handed over as it comes, and an ALTER may have to wait for who takes it.
const HELD_BYTES: usize = 16 << 20;

/// Finds the positions on both sides of the snapshots.
#[async_trait]
pub(crate) trait SnapshotPositions: Send {
    /// Called before the first snapshot is taken. Everything up to this position must be visible to a snapshot taken later.
    async fn before(&mut self) -> Result<Position>;

    /// Called after the snapshots were taken, while tables are locked whose rows are therefore the same in all of them: a position
    /// that these rows are of.
    async fn locked(&mut self) -> Result<Position>;

    /// Called when all were taken, on the connections that hold them. Nothing after this position may be visible in any.
    async fn after(&mut self, snapshots: &mut [Conn]) -> Result<Position>;
}

/// By the names that their rows go by.
type Tables = BTreeMap<TableName, Vec<Arc<LoadTable>>>;

enum Message {
    Rows(TableName, RowBuffer),
    Done(TableName),
    /// The table cannot be loaded.
    Stopped(TableName, StopReason),
    /// Nothing can be loaded.
    Failed(Error),
}

/// A read of some tables between two positions. Dropping it ends its connections.
pub(crate) struct SnapshotReader {
    position: Position,
    settled: Position,
    /// Tables that were locked, and the position that their rows are of.
    exact: BTreeMap<TableName, Position>,
    /// Tables that could not be locked: they are what they should be, and not read.
    unread: BTreeMap<TableName, Arc<TableSchema>>,
    /// Of a merged table its members, at least one; of any other itself.
    tables: Tables,
    /// Tables that are still being read.
    open: usize,
    /// Tables that cannot be read at all, still to be told.
    refused: VecDeque<(TableName, StopReason)>,
    messages: mpsc::Receiver<Message>,
    /// Ended when dropped.
    _workers: JoinSet<()>,
}

impl SnapshotReader {
    /// Starts reading. The user needs no more rights than SELECT and those of a replica.
    pub(crate) async fn open(
        connect: &ConnectConfig,
        server: &Server,
        tables: &[TableName],
        parallelism: usize,
        positions: &mut dyn SnapshotPositions,
    ) -> Result<Self> {
        Self::open_in_pieces(connect, server, tables, parallelism, positions, PIECE_ROWS).await
    }

    async fn open_in_pieces(
        connect: &ConnectConfig,
        server: &Server,
        tables: &[TableName],
        parallelism: usize,
        positions: &mut dyn SnapshotPositions,
        piece_rows: u64,
    ) -> Result<Self> {
        let connections = (0..parallelism.max(1)).map(|_| connection::open_raw(connect));
        let mut connections = future::try_join_all(connections).await?;
        let position = positions.before().await?;
        let mut locks = Locks::take(connect, server, tables).await?;
        future::try_join_all(connections.iter_mut().map(|conn| take_snapshot(conn, server.flavour))).await?;
        let mut exact = BTreeMap::new();
        if !locks.tables().is_empty() {
            let position = positions.locked().await?;
            exact.extend(locks.tables().iter().map(|table| (table.clone(), position.clone())));
        }
        let mut unread = BTreeMap::new();
        let (mut load, mut refused) = (Vec::new(), VecDeque::from(std::mem::take(&mut locks.refused)));
        locks.release().await?;
        if let Some(conn) = connections.first_mut() {
            for table in tables {
                if let Some(merge) = server.conversions.merges.of(table) {
                    let found = merge::describe(conn, server, merge).await?;
                    match LoadTable::of_members(server, merge, found, piece_rows) {
                        Ok(members) => load.extend(members.into_iter().map(Arc::new)),
                        Err(reason) => refused.push_back((table.clone(), reason)),
                    }
                    continue;
                }
                let found = catalog::read(conn, table).await?;
                match LoadTable::of(server, table, found, piece_rows) {
                    Ok(source) if refused.iter().any(|(refused, _)| refused == table) => {
                        unread.insert(table.clone(), source.schema);
                    }
                    Ok(source) if source.schema.key.is_empty() && !exact.contains_key(table) => {
                        let message = format!("table {table} lost its key while its load began");
                        return Err(Error::new(ErrorKind::Retry, message));
                    }
                    Ok(source) => load.push(Arc::new(source)),
                    Err(reason) => {
                        refused.retain(|(refused, _)| refused != table);
                        refused.push_back((table.clone(), reason));
                    }
                }
            }
            release_locks(conn).await?;
        }
        // After the tables were described: an ALTER beyond this is none that their description shows.
        let settled = positions.after(&mut connections).await?;
        let queue = Arc::new(Queue::new(&load));
        let (sender, messages) = mpsc::channel(connections.len());
        let mut workers = JoinSet::new();
        let mut tables: Tables = BTreeMap::new();
        for table in load {
            tables.entry(table.schema.table.clone()).or_default().push(table);
        }
        let tables = Arc::new(tables);
        for conn in connections {
            workers.spawn(work(conn, Arc::clone(&queue), Arc::clone(&tables), sender.clone()));
        }
        let (open, tables) = (tables.len(), (*tables).clone());
        Ok(Self { position, settled, exact, unread, tables, open, refused, messages, _workers: workers })
    }

    /// Why a table cannot be read at all.
    pub(crate) fn refusal(&self, table: &TableName) -> Option<&StopReason> {
        self.refused.iter().find_map(|(refused, reason)| (refused == table).then_some(reason))
    }
}

#[async_trait]
impl LoadReader for SnapshotReader {
    fn position(&self) -> &Position {
        &self.position
    }

    fn settled(&self) -> &Position {
        &self.settled
    }

    fn exact(&self, table: &TableName) -> Option<&Position> {
        self.exact.get(table)
    }

    fn schema(&self, table: &TableName) -> Option<Arc<TableSchema>> {
        let read = self.tables.get(table).and_then(|tables| tables.first()).map(|table| &table.schema);
        read.or_else(|| self.unread.get(table)).map(Arc::clone)
    }

    fn estimated_rows(&self, table: &TableName) -> Option<u64> {
        self.tables.get(table)?.iter().map(|table| table.estimated_rows).sum()
    }

    // Cancel-safe: nothing is awaited but the channel's own cancel-safe `recv`, and what it yields is used without a pause.
    async fn next(&mut self) -> Result<Option<LoadEvent>> {
        if let Some((table, reason)) = self.refused.pop_front() {
            return Ok(Some(LoadEvent::Failed(table, reason)));
        }
        while self.open > 0 {
            match self.messages.recv().await {
                // What other connections still bring of a table that failed is of no use.
                Some(Message::Rows(table, _)) if !self.tables.contains_key(&table) => {}
                Some(Message::Rows(table, rows)) => return Ok(Some(LoadEvent::Rows(table, rows))),
                Some(Message::Done(table)) => {
                    self.open -= 1;
                    return Ok(Some(LoadEvent::Done(table)));
                }
                Some(Message::Stopped(table, reason)) => {
                    self.open -= 1;
                    self.tables.remove(&table);
                    return Ok(Some(LoadEvent::Failed(table, reason)));
                }
                Some(Message::Failed(error)) => return Err(error),
                None => return Err(Error::new(ErrorKind::Retry, "the initial load ended before all tables were read")),
            }
        }
        Ok(None)
    }
}

/// Begins the connection's only transaction. Metadata locks that are taken after the savepoint go with a return to it; those
/// before it, and the snapshot, stay.
///
/// MariaDB keeps them nevertheless while the session may write to the log (`trans_rollback_to_savepoint` in `transaction.cc`).
/// A user who may is told to have its session not do so; for another, a table is locked against ALTER from its first piece
/// to the end of the load.
async fn take_snapshot(conn: &mut Conn, flavour: Flavour) -> Result<()> {
    const STATEMENTS: [&str; 3] = [
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        "SAVEPOINT piece",
    ];
    if flavour == Flavour::MariaDb
        && let Err(error) = conn.query_drop("SET SESSION sql_log_bin = 0").await
    {
        tracing::info!(%error, "tables stay locked against ALTER until the load ends; GRANT BINLOG ADMIN mends it");
    }
    for statement in STATEMENTS {
        conn.query_drop(statement).await.map_err(|error| sql_error("cannot take a snapshot of the tables", &error))?;
    }
    Ok(())
}

/// An ALTER TABLE must not wait for the load, with every writer of the table behind it.
async fn release_locks(conn: &mut Conn) -> Result<()> {
    let released = conn.query_drop("ROLLBACK TO SAVEPOINT piece").await;
    released.map_err(|error| sql_error("cannot release the locks on the tables being read", &error))
}

/// Does jobs until none is left.
async fn work(mut conn: Conn, queue: Arc<Queue>, tables: Arc<Tables>, sender: mpsc::Sender<Message>) {
    while let Some(job) = queue.next().await {
        let table = Arc::clone(job.table());
        let name = table.schema.table.clone();
        let end = match do_job(&mut conn, job, &sender).await {
            Ok(brought) => {
                if queue.finish(&name, brought) {
                    let stand = names_stand(&mut conn, tables.get(&name).map_or(&[], Vec::as_slice)).await;
                    Some(stand.map_or_else(Message::Failed, |()| Message::Done(name)))
                } else {
                    None
                }
            }
            // Another piece of it may have failed before.
            Err(PieceFault::Stop(reason)) => queue.give_up(&name).then_some(Message::Stopped(name, reason)),
            Err(PieceFault::Broken(error)) => Some(Message::Failed(error)),
            Err(PieceFault::Full) => {
                let message = format!("a row of table {name} is larger than a column of a buffer can be");
                Some(Message::Failed(Error::new(ErrorKind::Config, message)))
            }
        };
        if let Some(end) = end
            && sender.send(end).await.is_err()
        {
            // Nobody listens any more: the reader was dropped.
            return;
        }
    }
    // The server ends it anyway when it is dropped.
    let _ = conn.disconnect().await;
}

async fn do_job(
    conn: &mut Conn,
    job: Job,
    sender: &mpsc::Sender<Message>,
) -> std::result::Result<Vec<Job>, PieceFault> {
    match job {
        Job::Cut(table, from) => {
            let (ranges, rest) = table.cutter.cut(conn, from).await.map_err(PieceFault::Broken)?;
            release_locks(conn).await.map_err(PieceFault::Broken)?;
            let pieces = ranges.into_iter().map(|range| Job::Read(Arc::clone(&table), range));
            let rest = rest.map(|rest| Job::Cut(Arc::clone(&table), Some(rest)));
            Ok(pieces.chain(rest).collect())
        }
        Job::Read(table, range) => {
            let held = match read(conn, &table, &range, sender).await {
                // The connection may be lost, and the error is what is to be told.
                Err(PieceFault::Broken(error)) => return Err(PieceFault::Broken(error)),
                other => other,
            };
            release_locks(conn).await.map_err(PieceFault::Broken)?;
            send(held?, &table.schema.table, sender).await;
            Ok(Vec::new())
        }
    }
}

/// Columns that took one another's names while the table was read have each other's values in some pieces. Whatever else is done
/// to a table that is read, the server refuses the next piece, or the columns of the pieces are there under their names.
async fn names_stand(conn: &mut Conn, tables: &[Arc<LoadTable>]) -> Result<()> {
    for table in tables {
        names_of_table_stand(conn, table).await?;
    }
    Ok(())
}

async fn names_of_table_stand(conn: &mut Conn, table: &LoadTable) -> Result<()> {
    let name = &table.name;
    let shown = match conn.query_iter(format!("SELECT * FROM {} LIMIT 0", crate::sql::qualified(name))).await {
        Ok(answer) => {
            let columns = answer.columns_ref().iter().map(|column| column.name_str().into_owned());
            let shown: Vec<String> = columns.collect();
            answer.drop_result().await.map_err(|error| read_error(name, &error))?;
            shown
        }
        // Who may read some columns only is shown none this way.
        Err(error) if server_error(&error).is_some_and(|server| server.code == code::COLUMN_ACCESS_DENIED) => {
            Vec::new()
        }
        Err(error) => return Err(read_error(name, &error)),
    };
    release_locks(conn).await?;
    let places: Vec<usize> =
        shown.iter().filter_map(|shown| table.columns.iter().position(|column| column == shown)).collect();
    if places.is_sorted() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Retry,
        format!("columns of table {name} were renamed while it was read: it is read again"),
    ))
}

/// A send fails only when the reader was dropped, which ends this task too.
async fn send(buffers: Vec<RowBuffer>, table: &TableName, sender: &mpsc::Sender<Message>) {
    for rows in buffers {
        drop(sender.send(Message::Rows(table.clone(), rows)).await);
    }
}

/// Reads a piece. What it returns is still to be sent.
async fn read(
    conn: &mut Conn,
    table: &LoadTable,
    range: &Range,
    sender: &mpsc::Sender<Message>,
) -> std::result::Result<Vec<RowBuffer>, PieceFault> {
    let (name, merged) = (&table.name, &table.schema.table);
    let failed = |error: mysql_async::Error| match server_error(&error).map(|server| server.code) {
        Some(code::TABLE_ACCESS_DENIED | code::COLUMN_ACCESS_DENIED) => PieceFault::Stop(StopReason {
            state: "no permission".into(),
            detail: format!("the user may not read table {name}"),
            remedy: format!(
                "GRANT SELECT ON {} to the user; then run `calve reload {merged}`",
                crate::sql::qualified(name)
            ),
        }),
        _ => PieceFault::Broken(read_error(name, &error)),
    };
    let mut rows = conn.exec_iter(table.select(range), ()).await.map_err(failed)?;
    let empty = || RowBuffer::new(Arc::clone(&table.schema));
    let (mut buffer, mut bytes, mut scratch) = (empty(), 0, Vec::new());
    let (mut held, mut held_bytes) = (Vec::new(), 0);
    let mut fault = None;
    while let Some(row) = rows.next().await.map_err(failed)? {
        // The rest of this piece is still on its way, and must be read before the connection can go on.
        if fault.is_some() {
            continue;
        }
        let mut pushed = table.push(&row, &mut scratch, &mut buffer);
        if matches!(pushed, Err(PieceFault::Full)) && !buffer.is_empty() {
            held.push(std::mem::replace(&mut buffer, empty()));
            pushed = table.push(&row, &mut scratch, &mut buffer);
        }
        match pushed {
            Ok(more) => bytes += more,
            Err(PieceFault::Broken(error)) => return Err(PieceFault::Broken(error)),
            Err(other) => fault = Some(other),
        }
        if buffer.len() >= BUFFER_ROWS || bytes >= BUFFER_BYTES {
            held.push(std::mem::replace(&mut buffer, empty()));
            held_bytes += std::mem::take(&mut bytes);
        }
        if held_bytes >= HELD_BYTES {
            send(std::mem::take(&mut held), merged, sender).await;
            held_bytes = 0;
        }
    }
    drop(rows);
    if let Some(fault) = fault {
        return Err(fault);
    }
    held.extend(Some(buffer).filter(|buffer| !buffer.is_empty()));
    Ok(held)
}

#[cfg(all(test, feature = "servers"))]
#[path = "load_tests.rs"]
mod tests;

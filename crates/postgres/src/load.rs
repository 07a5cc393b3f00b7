//! Reads whole tables at one snapshot: some connections share it, each takes one piece of a table after the other and decodes
//! it, and the rows meet in a bounded channel.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use calve_core::{Error, ErrorKind, LoadEvent, LoadReader, Position, Result, RowBuffer, TableName, TableSchema};
use futures::{TryStreamExt, future};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::config::ConnectConfig;
use crate::copy::{CopyDecoder, select_list};
use crate::describe::{missing, qualified};
use crate::error::sql_error;
use crate::relation::{Kind, Relation};
use crate::sql::literal;

/// A buffer is handed over when it holds this many rows, or this many bytes of the wire: large enough for the writer's
/// batches, small enough that those in flight do not matter.
const BUFFER_ROWS: usize = 65_536;
const BUFFER_BYTES: usize = 8 << 20;
/// Pages of a piece at least, so that small tables are not cut up, and at most, so that no connection is left with a long rest.
const MIN_PIECE_PAGES: u64 = 2048;
const MAX_PIECE_PAGES: u64 = 65_536;
/// Pieces that each connection should get of a large table, so that all of them end at about the same time.
const PIECES_EACH: u64 = 4;
/// While the locks are waited for, nobody reads the stream.
const LOCK_TIMEOUT: &str = "20s";

/// A piece of a table, read by one COPY.
struct Piece {
    table: TableName,
    decoder: CopyDecoder,
    sql: String,
}

enum Message {
    Rows(TableName, RowBuffer),
    PieceDone(TableName),
    Failed(Error),
}

struct LoadTable {
    schema: Arc<TableSchema>,
    estimated_rows: Option<u64>,
    pieces_left: usize,
}

/// A consistent read of some tables. Dropping it ends its connections.
pub(crate) struct SnapshotReader {
    position: Position,
    tables: HashMap<TableName, LoadTable>,
    tables_left: usize,
    messages: mpsc::Receiver<Message>,
    /// Ended when dropped.
    _workers: JoinSet<()>,
    /// Holds locks on the tables: a TRUNCATE or rewrite would take rows away that the snapshot still shows.
    _keeper: Client,
}

impl SnapshotReader {
    /// Starts reading. When this returns, the snapshot is no longer needed: every connection has taken it over.
    pub(crate) async fn open(
        connect: &ConnectConfig,
        snapshot: &str,
        position: Position,
        tables: &[TableName],
        parallelism: usize,
    ) -> Result<Self> {
        let keeper = enter(connect, snapshot).await?;
        let relations = lock(&keeper, tables).await?;
        let mut pieces = VecDeque::new();
        let mut load = HashMap::new();
        for relation in &relations {
            let schema = relation.schema()?;
            let of_table = cut(&keeper, relation, &schema, parallelism).await?;
            let estimated_rows = relation.estimated_rows;
            load.insert(
                relation.table.clone(),
                LoadTable { schema, estimated_rows, pieces_left: of_table.len() },
            );
            pieces.extend(of_table);
        }
        let connections = parallelism.clamp(1, pieces.len().max(1));
        let clients = future::try_join_all((0..connections).map(|_| enter(connect, snapshot))).await?;
        Ok(Self::start(position, load, pieces, clients, keeper))
    }

    fn start(
        position: Position,
        tables: HashMap<TableName, LoadTable>,
        pieces: VecDeque<Piece>,
        clients: Vec<Client>,
        keeper: Client,
    ) -> Self {
        let (sender, messages) = mpsc::channel(clients.len());
        let queue = Arc::new(Mutex::new(pieces));
        let mut workers = JoinSet::new();
        for client in clients {
            let (queue, sender) = (Arc::clone(&queue), sender.clone());
            workers.spawn(async move {
                if let Err(error) = work(&client, &queue, &sender).await {
                    // Nobody listens any more only when the reader was dropped.
                    let _ = sender.send(Message::Failed(error)).await;
                }
            });
        }
        let tables_left = tables.len();
        Self { position, tables, tables_left, messages, _workers: workers, _keeper: keeper }
    }
}

#[async_trait]
impl LoadReader for SnapshotReader {
    fn position(&self) -> &Position {
        &self.position
    }

    fn schema(&self, table: &TableName) -> Option<Arc<TableSchema>> {
        self.tables.get(table).map(|table| Arc::clone(&table.schema))
    }

    fn estimated_rows(&self, table: &TableName) -> Option<u64> {
        self.tables.get(table)?.estimated_rows
    }

    // Cancel-safe: nothing is awaited but the channel's own cancel-safe `recv`, and what it yields is used without a pause.
    async fn next(&mut self) -> Result<Option<LoadEvent>> {
        while self.tables_left > 0 {
            match self.messages.recv().await {
                Some(Message::Rows(table, rows)) => return Ok(Some(LoadEvent::Rows(table, rows))),
                Some(Message::PieceDone(table)) => {
                    let Some(state) = self.tables.get_mut(&table) else { continue };
                    state.pieces_left = state.pieces_left.saturating_sub(1);
                    if state.pieces_left == 0 {
                        self.tables_left -= 1;
                        return Ok(Some(LoadEvent::Done(table)));
                    }
                }
                Some(Message::Failed(error)) => return Err(error),
                None => return Err(Error::new(ErrorKind::Retry, "the initial load ended before all tables were read")),
            }
        }
        Ok(None)
    }
}

/// Opens a connection whose only transaction sees the snapshot.
async fn enter(connect: &ConnectConfig, snapshot: &str) -> Result<Client> {
    let client = connect.connect_sql().await?;
    let sql = format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT {}; \
         SET LOCAL row_security = off; SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; \
         SELECT pg_catalog.set_config(name, '0', true) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout'",
        literal(snapshot)
    );
    let failed = |error| sql_error("cannot read at the snapshot of the replication slot", &error);
    client.batch_execute(&sql).await.map_err(failed)?;
    Ok(client)
}

/// Locks the tables against TRUNCATE and rewriting, makes sure that none came between snapshot and lock, and describes them as
/// the snapshot shows them.
async fn lock(client: &Client, tables: &[TableName]) -> Result<Vec<Relation>> {
    let mut relations = Vec::with_capacity(tables.len());
    for table in tables {
        let relation = Relation::read(client, table)
            .await?
            .ok_or_else(|| Error::new(ErrorKind::Config, missing(table).to_string()))?;
        // What cannot be read at all is told before a lock is waited for.
        relation.schema()?;
        relations.push(relation);
    }
    for relation in &relations {
        let table = &relation.table;
        let only = if relation.kind == Kind::Table { "ONLY " } else { "" };
        let sql = format!("LOCK TABLE {only}{} IN ACCESS SHARE MODE", qualified(table));
        client.batch_execute(&sql).await.map_err(|error| read_error(relation, &error))?;
        let files: Vec<u32> =
            std::iter::once(relation.oid).chain(relation.leaves.iter().map(|leaf| leaf.oid)).collect();
        // The catalog's row is read as of the snapshot, the function looks at the present.
        let changed = client
            .query_one(
                "SELECT pg_catalog.count(*) FROM pg_catalog.unnest($1::oid[]) part (oid) \
                   LEFT JOIN pg_catalog.pg_class c ON c.oid = part.oid \
                  WHERE c.relkind = 'r' AND c.relfilenode IS DISTINCT FROM pg_catalog.pg_relation_filenode(part.oid)",
                &[&files],
            )
            .await
            .and_then(|row| row.try_get::<_, i64>(0))
            .map_err(|error| read_error(relation, &error))?;
        if changed > 0 {
            return Err(Error::new(
                ErrorKind::Retry,
                format!("table {table} was truncated or rewritten while its load began"),
            ));
        }
    }
    Ok(relations)
}

/// Cuts a table into pieces of consecutive pages, partition by partition.
async fn cut(
    client: &Client,
    relation: &Relation,
    schema: &Arc<TableSchema>,
    parallelism: usize,
) -> Result<Vec<Piece>> {
    let columns = select_list(schema);
    let piece = |from: &str, pages: Option<(u64, Option<u64>)>| {
        let mut select = format!("SELECT {columns} FROM {from}");
        // Writing to a string cannot fail.
        if let Some((first, _)) = pages {
            let _ = write!(select, " WHERE ctid >= '({first},0)'::pg_catalog.tid");
        }
        if let Some((_, Some(end))) = pages {
            let _ = write!(select, " AND ctid < '({end},0)'::pg_catalog.tid");
        }
        Piece {
            table: relation.table.clone(),
            decoder: CopyDecoder::new(Arc::clone(schema)),
            sql: format!("COPY ({select}) TO STDOUT (FORMAT binary)"),
        }
    };
    let from: Vec<(u32, String)> = match relation.kind {
        // The right to read a partitioned table is not one to read its partitions by their own names.
        Kind::Partitioned if relation.leaves.iter().any(|leaf| !leaf.readable) => {
            return Ok(vec![piece(&qualified(&relation.table), None)]);
        }
        Kind::Partitioned => relation.leaves.iter().map(|leaf| (leaf.oid, qualified(&leaf.table))).collect(),
        // Rows of tables that inherit from this one are theirs, in the log too.
        Kind::Table | Kind::Other(_) => vec![(relation.oid, qualified(&relation.table))],
    };
    let mut pieces = Vec::new();
    for (oid, name) in from {
        let pages = client
            .query_one(
                "SELECT pg_catalog.pg_relation_size($1::oid) \
                      / pg_catalog.current_setting('block_size')::int8",
                &[&oid],
            )
            .await
            .and_then(|row| row.try_get::<_, Option<i64>>(0))
            .map_err(|error| read_error(relation, &error))?;
        let pages = pages.and_then(|pages| u64::try_from(pages).ok()).unwrap_or(0);
        let wanted = u64::try_from(parallelism).unwrap_or(1).saturating_mul(PIECES_EACH).max(1);
        let step = pages.div_ceil(wanted).clamp(MIN_PIECE_PAGES, MAX_PIECE_PAGES);
        let only = format!("ONLY {name}");
        let mut first = 0;
        while first + step < pages {
            pieces.push(piece(&only, Some((first, Some(first + step)))));
            first += step;
        }
        // The last has no end: the table grew, and may hold rows of the snapshot there.
        pieces.push(piece(&only, (first > 0).then_some((first, None))));
    }
    if pieces.is_empty() {
        // A partitioned table without partitions: no rows, but it is to be brought all the same.
        pieces.push(piece(&qualified(&relation.table), None));
    }
    Ok(pieces)
}

async fn work(client: &Client, queue: &Mutex<VecDeque<Piece>>, sender: &mpsc::Sender<Message>) -> Result<()> {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(piece) = next else { return Ok(()) };
        let table = piece.table.clone();
        if !copy(client, piece, sender).await? || sender.send(Message::PieceDone(table)).await.is_err() {
            return Ok(());
        }
    }
}

/// Reads a piece. False when nobody wants the rows any more.
async fn copy(client: &Client, mut piece: Piece, sender: &mpsc::Sender<Message>) -> Result<bool> {
    let table = piece.table.clone();
    let failed = |error: tokio_postgres::Error| copy_error(&table, &error);
    let stream = client.copy_out(piece.sql.as_str()).await.map_err(failed)?;
    futures::pin_mut!(stream);
    let schema = Arc::clone(piece.decoder.schema());
    let mut buffer = RowBuffer::new(Arc::clone(&schema));
    let mut bytes = 0;
    let mut full = Vec::new();
    while let Some(message) = stream.try_next().await.map_err(failed)? {
        bytes += message.len();
        piece.decoder.message(&message, &mut buffer, &mut |buffer| {
            full.push(std::mem::replace(buffer, RowBuffer::new(Arc::clone(&schema))));
        })?;
        if buffer.len() >= BUFFER_ROWS || bytes >= BUFFER_BYTES {
            full.push(std::mem::replace(&mut buffer, RowBuffer::new(Arc::clone(&schema))));
            bytes = 0;
        }
        for rows in full.drain(..) {
            if sender.send(Message::Rows(table.clone(), rows)).await.is_err() {
                return Ok(false);
            }
        }
    }
    piece.decoder.finish()?;
    Ok(buffer.is_empty() || sender.send(Message::Rows(table, buffer)).await.is_ok())
}

fn read_error(relation: &Relation, error: &tokio_postgres::Error) -> Error {
    copy_error(&relation.table, error)
}

/// What the server's refusals mean while a table is read.
fn copy_error(table: &TableName, error: &tokio_postgres::Error) -> Error {
    use tokio_postgres::error::SqlState;
    let name = qualified(table);
    let (kind, advice) = match error.code() {
        Some(state) if *state == SqlState::INSUFFICIENT_PRIVILEGE => (
            ErrorKind::Config,
            format!("GRANT SELECT ON {name} to this user; where row-level security is on, also ALTER ROLE .. BYPASSRLS"),
        ),
        // The snapshot shows the table as it was; a change of it since then passes with another attempt.
        Some(state)
            if [
                SqlState::UNDEFINED_COLUMN,
                SqlState::UNDEFINED_TABLE,
                SqlState::UNDEFINED_FUNCTION,
                SqlState::LOCK_NOT_AVAILABLE,
            ]
            .contains(state) =>
        {
            (ErrorKind::Retry, "the table is being altered, truncated or locked by somebody".to_owned())
        }
        _ => return sql_error(format_args!("cannot read table {table}"), error),
    };
    Error::new(kind, format!("{}; {advice}", sql_error(format_args!("cannot read table {table}"), error)))
}

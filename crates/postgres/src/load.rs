//! Reads whole tables at one snapshot: some connections share it, each takes one piece of a table after the other and decodes
//! it, and the rows meet in a bounded channel.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use calve_core::{
    Error, ErrorKind, LoadEvent, LoadReader, Position, Result, RowBuffer, StopReason, TableName, TableSchema,
    ValueRules,
};
use futures::{TryStreamExt, future};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::config::ConnectConfig;
use crate::copy::{CopyDecoder, CopyFault, select_list};
use crate::describe::{missing, qualified};
use crate::error::sql_error;
use crate::relation::{Kind, Relation};
use crate::sql::literal;
use calve_core::Finding;

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
    /// The table cannot be loaded.
    Stopped(TableName, StopReason),
    /// Nothing can be loaded.
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
    /// Tables that cannot be read at all, still to be told.
    refused: VecDeque<(TableName, StopReason)>,
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
        rules: &ValueRules,
    ) -> Result<Self> {
        let keeper = enter(connect, snapshot).await?;
        let mut sources = Vec::new();
        let mut refused = VecDeque::new();
        for (table, relation) in tables.iter().zip(Relation::read_all(&keeper, tables).await?) {
            match Source::of(table, relation, rules) {
                Ok(source) => sources.push(source),
                Err(reason) => refused.push_back((table.clone(), reason)),
            }
        }
        lock(&keeper, &sources).await?;
        let pages = pages(&keeper, &sources).await?;
        let mut pieces = VecDeque::new();
        let mut load = HashMap::new();
        for source in sources {
            let of_table = source.cut(&pages, parallelism, rules);
            let Source { relation, schema } = source;
            let estimated_rows = relation.estimated_rows;
            load.insert(relation.table, LoadTable { schema, estimated_rows, pieces_left: of_table.len() });
            pieces.extend(of_table);
        }
        let connections = parallelism.max(1).min(pieces.len());
        let clients = future::try_join_all((0..connections).map(|_| enter(connect, snapshot))).await?;
        let (sender, messages) = mpsc::channel(clients.len().max(1));
        let queue = Arc::new(Mutex::new(pieces));
        let mut workers = JoinSet::new();
        for client in clients {
            workers.spawn(work(client, Arc::clone(&queue), sender.clone()));
        }
        let tables_left = load.len();
        Ok(Self { position, tables: load, refused, tables_left, messages, _workers: workers, _keeper: keeper })
    }

    /// Why a table cannot be read at all.
    pub(crate) fn refusal(&self, table: &TableName) -> Option<&StopReason> {
        self.refused.iter().find_map(|(refused, reason)| (refused == table).then_some(reason))
    }

    /// Whether rows of the table are still wanted.
    fn is_open(&self, table: &TableName) -> bool {
        self.tables.get(table).is_some_and(|state| state.pieces_left > 0)
    }
}

#[async_trait]
impl LoadReader for SnapshotReader {
    fn settled(&self) -> &Position {
        &self.position
    }

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
        if let Some((table, reason)) = self.refused.pop_front() {
            return Ok(Some(LoadEvent::Failed(table, reason)));
        }
        while self.tables_left > 0 {
            match self.messages.recv().await {
                // What other connections still bring of a table that failed is of no use.
                Some(Message::Rows(table, _) | Message::PieceDone(table) | Message::Stopped(table, _))
                    if !self.is_open(&table) => {}
                Some(Message::Rows(table, rows)) => return Ok(Some(LoadEvent::Rows(table, rows))),
                Some(Message::PieceDone(table)) => {
                    let Some(state) = self.tables.get_mut(&table) else { continue };
                    state.pieces_left -= 1;
                    if state.pieces_left == 0 {
                        self.tables_left -= 1;
                        return Ok(Some(LoadEvent::Done(table)));
                    }
                }
                Some(Message::Stopped(table, reason)) => {
                    let Some(state) = self.tables.get_mut(&table) else { continue };
                    state.pieces_left = 0;
                    self.tables_left -= 1;
                    return Ok(Some(LoadEvent::Failed(table, reason)));
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

/// A table that can be read, as the snapshot shows it.
struct Source {
    relation: Relation,
    schema: Arc<TableSchema>,
}

impl Source {
    fn of(table: &TableName, relation: Option<Relation>, rules: &ValueRules) -> std::result::Result<Self, StopReason> {
        let refused = |state: &str, finding: &Finding| StopReason {
            state: state.to_owned(),
            detail: finding.what.clone(),
            remedy: format!("{}; then run `calve reload {table}`", finding.remedy),
        };
        let relation = relation.ok_or_else(|| refused("dropped", &missing(table)))?;
        let schema = relation.schema(rules).map_err(|finding| refused(StopReason::SCHEMA_CHANGED, &finding))?;
        match relation.unreadable() {
            Some(finding) => Err(refused("no permission", &finding)),
            None => Ok(Self { relation, schema }),
        }
    }

    /// The relations that hold its rows, by number, and itself.
    fn parts(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.relation.oid).chain(self.relation.leaves.iter().map(|leaf| leaf.oid))
    }

    /// Cuts the table into pieces of consecutive pages, partition by partition.
    fn cut(&self, pages: &HashMap<u32, u64>, parallelism: usize, rules: &ValueRules) -> Vec<Piece> {
        let relation = &self.relation;
        let parts: Vec<(u32, String)> = match relation.kind {
            // The right to read a partitioned table is not one to read its partitions by their own names. One without
            // partitions has no rows, but is to be brought all the same.
            Kind::Partitioned if relation.leaves.is_empty() || relation.leaves.iter().any(|leaf| !leaf.readable) => {
                return vec![self.piece(&qualified(&relation.table), "", rules)];
            }
            Kind::Partitioned => relation.leaves.iter().map(|leaf| (leaf.oid, qualified(&leaf.table))).collect(),
            // Rows of tables that inherit from this one are theirs, in the log too.
            Kind::Table | Kind::Other(_) => vec![(relation.oid, qualified(&relation.table))],
        };
        let wanted = u64::try_from(parallelism).unwrap_or(1).saturating_mul(PIECES_EACH).max(1);
        let mut pieces = Vec::new();
        for (oid, name) in parts {
            let pages = pages.get(&oid).copied().unwrap_or(0);
            let step = pages.div_ceil(wanted).clamp(MIN_PIECE_PAGES, MAX_PIECE_PAGES);
            let from = format!("ONLY {name}");
            let mut first = 0;
            while first + step < pages {
                let end = first + step;
                let range =
                    format!(" WHERE ctid >= '({first},0)'::pg_catalog.tid AND ctid < '({end},0)'::pg_catalog.tid");
                pieces.push(self.piece(&from, &range, rules));
                first = end;
            }
            // The last has no end: the table grew, and may hold rows of the snapshot there.
            let rest = if first == 0 { String::new() } else { format!(" WHERE ctid >= '({first},0)'::pg_catalog.tid") };
            pieces.push(self.piece(&from, &rest, rules));
        }
        pieces
    }

    fn piece(&self, from: &str, range: &str, rules: &ValueRules) -> Piece {
        let columns = select_list(&self.schema);
        Piece {
            table: self.relation.table.clone(),
            decoder: CopyDecoder::new(Arc::clone(&self.schema), rules),
            sql: format!("COPY (SELECT {columns} FROM {from}{range}) TO STDOUT (FORMAT binary)"),
        }
    }
}

/// Locks the tables against TRUNCATE and rewriting, and makes sure that none came between the snapshot and the locks.
async fn lock(client: &Client, sources: &[Source]) -> Result<()> {
    if sources.is_empty() {
        return Ok(());
    }
    let names = sources.iter().map(|Source { relation, .. }| {
        let only = if relation.kind == Kind::Table { "ONLY " } else { "" };
        format!("{only}{}", qualified(&relation.table))
    });
    let sql = format!("LOCK TABLE {} IN ACCESS SHARE MODE", names.collect::<Vec<_>>().join(", "));
    client.batch_execute(&sql).await.map_err(|error| read_error("the tables to load", &error))?;
    let parts: Vec<u32> = sources.iter().flat_map(Source::parts).collect();
    // The catalog's row is read as of the snapshot, the function looks at the present.
    let changed = client
        .query_opt(
            "SELECT part.oid FROM pg_catalog.unnest($1::oid[]) part (oid) \
               LEFT JOIN pg_catalog.pg_class c ON c.oid = part.oid \
              WHERE c.relkind = 'r' AND c.relfilenode IS DISTINCT FROM pg_catalog.pg_relation_filenode(part.oid) LIMIT 1",
            &[&parts],
        )
        .await
        .and_then(|row| row.map(|row| row.try_get::<_, u32>(0)).transpose())
        .map_err(|error| read_error("the tables to load", &error))?;
    let Some(changed) = changed else { return Ok(()) };
    let table = sources.iter().find(|source| source.parts().any(|part| part == changed));
    let table = table.map_or_else(String::new, |source| source.relation.table.to_string());
    let message = format!("table {table} was truncated or rewritten while its load began");
    Err(Error::new(ErrorKind::Retry, message))
}

/// How many pages each relation has now.
async fn pages(client: &Client, sources: &[Source]) -> Result<HashMap<u32, u64>> {
    let parts: Vec<u32> = sources.iter().flat_map(Source::parts).collect();
    let failed = |error: tokio_postgres::Error| read_error("the sizes of the tables", &error);
    let rows = client
        .query(
            "SELECT part.oid, pg_catalog.pg_relation_size(part.oid) / pg_catalog.current_setting('block_size')::int8 \
               FROM pg_catalog.unnest($1::oid[]) part (oid)",
            &[&parts],
        )
        .await
        .map_err(failed)?;
    let mut pages = HashMap::new();
    for row in rows {
        let count: Option<i64> = row.try_get(1).map_err(failed)?;
        pages.insert(row.try_get(0).map_err(failed)?, count.and_then(|count| count.try_into().ok()).unwrap_or(0));
    }
    Ok(pages)
}

/// Reads pieces until none is left.
async fn work(client: Client, queue: Arc<Mutex<VecDeque<Piece>>>, sender: mpsc::Sender<Message>) {
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    while let Some(piece) = next() {
        let table = piece.table.clone();
        let end = match copy(&client, piece, &sender).await {
            Ok(()) => Message::PieceDone(table),
            Err(CopyFault::Stop(reason)) => {
                queue.lock().unwrap_or_else(PoisonError::into_inner).retain(|piece| piece.table != table);
                // The rest of this COPY is still on its way; another one would first have to wait for it.
                Message::Stopped(table, reason)
            }
            Err(CopyFault::Broken(error)) => Message::Failed(error),
        };
        // Nobody listens any more: the reader was dropped.
        if sender.send(end).await.is_err() {
            return;
        }
    }
}

/// Reads a piece.
async fn copy(client: &Client, mut piece: Piece, sender: &mpsc::Sender<Message>) -> std::result::Result<(), CopyFault> {
    let table = piece.table.clone();
    let failed = |error: tokio_postgres::Error| CopyFault::Broken(read_error(format_args!("table {table}"), &error));
    let stream = client.copy_out(piece.sql.as_str()).await.map_err(failed)?;
    futures::pin_mut!(stream);
    let schema = Arc::clone(piece.decoder.schema());
    let empty = || RowBuffer::new(Arc::clone(&schema));
    // A send fails only when the reader was dropped, which ends this task too.
    let send = async |rows: RowBuffer| drop(sender.send(Message::Rows(table.clone(), rows)).await);
    let mut buffer = empty();
    let mut bytes = 0;
    let mut full = Vec::new();
    while let Some(message) = stream.try_next().await.map_err(failed)? {
        bytes += message.len();
        piece.decoder.message(&message, &mut buffer, &mut |buffer| full.push(std::mem::replace(buffer, empty())))?;
        if buffer.len() >= BUFFER_ROWS || bytes >= BUFFER_BYTES {
            full.push(std::mem::replace(&mut buffer, empty()));
            bytes = 0;
        }
        for rows in full.drain(..) {
            send(rows).await;
        }
    }
    piece.decoder.finish()?;
    if !buffer.is_empty() {
        send(buffer).await;
    }
    Ok(())
}

/// What the server's refusals mean while tables are read.
fn read_error(what: impl std::fmt::Display, error: &tokio_postgres::Error) -> Error {
    use tokio_postgres::error::SqlState;
    const PASSING: [SqlState; 4] = [
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::LOCK_NOT_AVAILABLE,
    ];
    let said = sql_error(format_args!("cannot read {what}"), error);
    let (kind, advice) = match error.code() {
        Some(state) if *state == SqlState::INSUFFICIENT_PRIVILEGE => {
            (ErrorKind::Config, "run `calve check`, which says what to grant")
        }
        // The snapshot shows a table as it was; a change of it since then passes with another attempt.
        Some(state) if PASSING.contains(state) => {
            (ErrorKind::Retry, "a table is being altered, truncated or locked by somebody")
        }
        _ => return said,
    };
    Error::new(kind, format!("{said}; {advice}"))
}

#[cfg(all(test, feature = "servers"))]
#[path = "load_tests.rs"]
mod tests;

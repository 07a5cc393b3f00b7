//! MySQL and MariaDB behind the port of a change source.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use calve_core::{
    BinlogOffset, BinlogPosition, ChangeSink, ChangeSource, DurablePosition, Error, ErrorKind, GtidPosition, LastGtid,
    LoadReader, LogState, MariaDbPoint, MariaDbPosition, Position, Result, SourceIdentity, SourceTable, TableIndex,
    TableName, TableSchema,
};
use calve_spool::Spools;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::binlog::Flavour;
use crate::connection;
use crate::describe;
use crate::identity::{self, LogIdentity, LogReach};
use crate::load::SnapshotReader;
use crate::merge;
use crate::server::{self, Server};
use crate::settings::MySqlSettings;
use crate::snapshot_place::SnapshotPlace;
use crate::stream::{BinlogReader, Replica};
use crate::transactions::Transactions;
use crate::xa_search;

/// `poll` returns after this long without an event.
const SHORT_WAIT: Duration = Duration::from_millis(250);

/// A MySQL or MariaDB server as a source of changes.
pub struct MySqlSource {
    settings: MySqlSettings,
    /// For questions; opened when one is asked.
    conn: Option<Conn>,
    /// As it was found last.
    server: Option<Server>,
    reach: LogReach,
    /// The end of its log then.
    end: Option<Position>,
    /// Tables that were there before, by the merged table that they belong to.
    members: BTreeMap<TableName, Vec<TableName>>,
    /// MariaDB: the tables were read from this very server, so that places in its files mean the same.
    same_server: AtomicBool,
    stream: Option<Stream>,
}

/// A running stream.
pub(crate) struct Stream {
    settings: MySqlSettings,
    reader: BinlogReader,
    pub(crate) transactions: Transactions,
}

impl MySqlSource {
    /// Nothing is connected before it is asked for.
    pub fn new(settings: MySqlSettings) -> Self {
        Self {
            settings,
            conn: None,
            server: None,
            reach: LogReach::default(),
            end: None,
            members: BTreeMap::new(),
            same_server: AtomicBool::new(false),
            stream: None,
        }
    }

    /// The SQL connection, opened anew where it was lost.
    async fn conn(&mut self) -> Result<&mut Conn> {
        if let Some(conn) = &mut self.conn
            && conn.ping().await.is_err()
        {
            self.conn = None;
        }
        let conn = match self.conn.take() {
            Some(conn) => conn,
            None => connection::open(&self.settings.connect).await?,
        };
        Ok(self.conn.insert(conn))
    }

    fn server(&self) -> Result<&Server> {
        self.server
            .as_ref()
            .ok_or_else(|| Error::new(ErrorKind::Bug, "the server was not looked at before it was used"))
    }
}

/// Where a server's log begins and ends, in the words its positions are written in.
pub(crate) struct LogEnds {
    /// What was purged: nothing at or below it can be read any more.
    pub(crate) purged: Position,
    pub(crate) end: Position,
    pub(crate) reach: LogReach,
}

/// Asks where the log begins and ends.
pub(crate) async fn log_ends(conn: &mut Conn, server: &Server) -> Result<LogEnds> {
    // Before the GTIDs: they may be ahead of it, never behind.
    let at = server::binlog_end(conn, server).await?;
    let mut reach = LogReach { files: server::binary_logs(conn).await?, ..LogReach::default() };
    let oldest = reach.files.first().map_or_else(|| at.clone(), |file| BinlogOffset::new(&file.name, 4));
    let (purged, end) = match server.flavour {
        Flavour::MariaDb => {
            let purged = server::gtid_of(conn, &oldest).await?;
            reach.binlog = server::gtid_binlog_pos(conn).await?;
            // A position whose parts are of different moments would not be found in the log again.
            let end = if server::binlog_end(conn, server).await? == at {
                MariaDbPosition { at: Some(at), ..reach.binlog.clone() }
            } else {
                server::gtid_of(conn, &at).await?
            };
            let purged = MariaDbPosition { at: Some(oldest), ..purged };
            (Position::MariaDb(purged), Position::MariaDb(end))
        }
        Flavour::MySql if server.has_gtids() => {
            reach.purged = server::gtid_purged(conn).await?;
            reach.executed = server::gtid_executed(conn).await?;
            let purged = GtidPosition { at: Some(oldest), ..GtidPosition::new(reach.purged.clone()) };
            let end = GtidPosition { at: Some(at), ..GtidPosition::new(reach.executed.clone()) };
            (Position::MySql(purged), Position::MySql(end))
        }
        Flavour::MySql => {
            let place = |applied| Position::Binlog(BinlogPosition { applied, resume: None, created: 0 });
            (place(oldest), place(at))
        }
    };
    Ok(LogEnds { purged, end, reach })
}

/// Looks at the server, and refuses one whose log cannot be read row by row.
pub(crate) async fn read_server(conn: &mut Conn, settings: &MySqlSettings) -> Result<Server> {
    let server = Server { conversions: settings.conversions.clone(), ..Server::read(conn).await? };
    if !server.log_bin {
        return Err(Error::new(
            ErrorKind::Config,
            "the server writes no binary log: set log_bin in its configuration and restart it",
        ));
    }
    Ok(server)
}

#[async_trait]
impl ChangeSource for MySqlSource {
    async fn log_state(&mut self) -> Result<LogState> {
        let settings = self.settings.clone();
        let conn = self.conn().await?;
        let server = read_server(conn, &settings).await?;
        // Before the log's end is read: it then says up to there how each of them was made.
        let mut there = BTreeMap::new();
        for merge in settings.conversions.merges.all() {
            there.insert(merge.table.clone(), merge::members(conn, merge).await?);
        }
        let LogEnds { purged, end, reach } = log_ends(conn, &server).await?;
        let identity = LogIdentity::of(&server).to_source()?;
        self.server = Some(server);
        self.reach = reach;
        self.end = Some(end.clone());
        self.members = there;
        // Nothing is kept for anybody: the log is there as long as the server keeps it.
        Ok(LogState { identity, acknowledged: Some(purged), fresh: end.clone(), end })
    }

    fn same_log(&self, now: &LogState, remembered: &SourceIdentity, at: &Position) -> Result<()> {
        let (now, before) = (LogIdentity::from_source(&now.identity)?, LogIdentity::from_source(remembered)?);
        self.same_server.store(now == before, Ordering::Relaxed);
        identity::same_log(&now, &before, at, &self.reach)
    }

    /// The log carries every table.
    async fn follow(&mut self, _: &[TableName]) -> Result<()> {
        Ok(())
    }

    async fn keep_log(&mut self) -> Result<LogState> {
        self.log_state().await
    }

    async fn describe(&mut self, table: &TableName) -> Result<Arc<TableSchema>> {
        let server = self.server()?.clone();
        match server.conversions.merges.of(table) {
            None => describe::describe(self.conn().await?, &server, table).await,
            Some(merge) => describe::describe_merged(self.conn().await?, &server, merge).await,
        }
    }

    async fn start(&mut self, from: &Position, tables: &[SourceTable]) -> Result<()> {
        self.settings.conversions.rules.check(tables.iter().map(|table| &*table.schema))?;
        for table in tables {
            if let Some(wanted) = self.settings.conversions.rules.unapplied_mode(&table.schema) {
                let (table, mode) = (&table.name, table.schema.mode);
                tracing::warn!(%table, %mode, "its mode {wanted} of the configuration counts when the table is read again (calve reload {table})");
            }
            for what in self.settings.conversions.rules.unapplied_excerpt(&table.schema) {
                let table = &table.name;
                tracing::warn!(%table, "{what}, as the configuration says, once the table is read again (calve reload {table})");
            }
            for (column, wanted) in self.settings.conversions.rules.unapplied(&table.schema) {
                let table = &table.name;
                tracing::warn!(%table, column, "its type {wanted} of the configuration counts when the table is read again (calve reload {table})");
            }
        }
        let server = self.server()?.clone();
        let is_known = self.same_content(from).await?;
        let again = self.last_to_compare(from);
        let reader = BinlogReader::open(&self.settings, from, again.as_ref(), Replica::Pipeline).await?;
        Spools::sweep(&self.settings.spill_dir);
        let mut transactions = Transactions::new(
            server.flavour,
            server.lower_case_table_names,
            from,
            again,
            tables,
            Spools::new(&self.settings.spill_dir),
        )?
        .with_settings(&self.settings);
        if let Some(at) = from.binlog_offset().filter(|_| is_known) {
            transactions.know_place(at.clone());
        }
        let unknown = self.unknown_members(tables);
        if !unknown.is_empty() {
            let end = match self.end.as_ref().and_then(Position::binlog_offset) {
                Some(end) => end.clone(),
                None => server::binlog_end(self.conn().await?, &server).await?,
            };
            transactions.await_members(&unknown, end);
        }
        self.stream = Some(Stream::new(self.settings.clone(), reader, transactions));
        Ok(())
    }

    async fn poll(&mut self, sink: &mut dyn ChangeSink) -> Result<()> {
        let Some(stream) = &mut self.stream else {
            return Err(Error::new(ErrorKind::Bug, "the stream was polled before it was started"));
        };
        stream.poll(sink).await
    }

    /// A server keeps its log for its own time, whoever has read it.
    fn acknowledge(&mut self, _: &DurablePosition) {}

    async fn start_load(&mut self, tables: &[TableName]) -> Result<Box<dyn LoadReader>> {
        let server = self.server()?.clone();
        let Some(stream) = &mut self.stream else {
            return Err(Error::new(ErrorKind::Bug, "a load was started before the stream"));
        };
        let stands = stream.transactions.place().position();
        let mut place = SnapshotPlace::find(&self.settings, &server, Some(stands)).await?;
        let MySqlSettings { connect, load_parallelism, .. } = &self.settings;
        let reader = SnapshotReader::open(connect, &server, tables, *load_parallelism, &mut place).await?;
        stream.transactions.loads(tables, reader.settled());
        Ok(Box::new(reader))
    }

    async fn stop(&mut self) {
        self.stream = None;
        if let Some(conn) = self.conn.take() {
            let _ = conn.disconnect().await;
        }
    }
}

impl MySqlSource {
    /// Tables that were there when the log was looked at, and belong to merged ones that do not know of them. They were made since, or
    /// they were there and are asked for since.
    fn unknown_members(&self, tables: &[SourceTable]) -> Vec<(TableIndex, TableName)> {
        let mut unknown = Vec::new();
        for (index, table) in tables.iter().enumerate() {
            let there = self.members.get(&table.name).into_iter().flatten();
            let unknown_ones = there.filter(|member| table.schema.member(member).is_none());
            unknown.extend(unknown_ones.map(|member| (TableIndex(index), member.clone())));
        }
        unknown
    }

    /// The last transaction is sent again and compared, unless the log does not hold it any more.
    fn last_to_compare(&self, from: &Position) -> Option<LastGtid> {
        let Position::MySql(at) = from else { return None };
        at.last.clone().filter(|last| !self.reach.purged.contains(&last.source, last.number))
    }

    /// MariaDB: the place where reading stood must still be behind the same transactions, where its file is there. True where
    /// it is.
    async fn same_content(&mut self, from: &Position) -> Result<bool> {
        let Position::MariaDb(MariaDbPosition { domains, at: Some(at) }) = from else { return Ok(false) };
        if self.end.as_ref() == Some(from) {
            return Ok(true);
        }
        if !self.same_server.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let conn = self.conn().await?;
        let files = server::binary_logs(conn).await?;
        if !files.iter().any(|file| file.name == *at.file && file.bytes >= at.offset) {
            return Ok(false);
        }
        let there = server::gtid_of(conn, at).await?;
        let same = |(domain, there): (&u32, &MariaDbPoint)| {
            domains.get(domain).is_some_and(|point| point.applied == there.applied)
        };
        if there.domains.iter().all(same) {
            return Ok(true);
        }
        Err(Error::new(
            ErrorKind::SourceGone,
            format!(
                "at {at} the log stands at {there}, where {from} was replicated: the log was reset, or the server was restored \
                 from a backup; run `calve reload --all`"
            ),
        ))
    }
}

impl Stream {
    pub(crate) fn new(settings: MySqlSettings, reader: BinlogReader, transactions: Transactions) -> Self {
        Self { settings, reader, transactions }
    }

    /// Handles events that came together, or waits shortly. Cancel-safe: an event waits in the reader until it can be
    /// handled, and handling it does not wait.
    pub(crate) async fn poll(&mut self, sink: &mut dyn ChangeSink) -> Result<()> {
        let result = match tokio::time::timeout(SHORT_WAIT, self.reader.ready()).await {
            Err(_) => Ok(()),
            Ok(Ok(())) => self.handle(sink).await,
            Ok(Err(error)) => Err(error),
        };
        match result {
            Ok(()) => self.transactions.tell_quiet(sink),
            Err(_) if self.transactions.in_transaction() => sink.abort(),
            Err(_) => {}
        }
        result
    }

    async fn handle(&mut self, sink: &mut dyn ChangeSink) -> Result<()> {
        while !sink.is_full() {
            if self.transactions.has_doubtful() {
                let (listed, end) = xa_search::prepared_now(&self.settings).await?;
                self.transactions.learn_prepared_now(&listed, end);
            }
            let Some(event) = self.reader.take() else { break };
            if !sink.has_room_for(event.body().len()) {
                self.reader.put_back(event);
                break;
            }
            if let Some(xid) = self.transactions.unknown_xid(event.header(), event.body())? {
                self.reader.put_back(event);
                let prepared = xa_search::find_prepared(&self.settings, &self.transactions, &xid).await?;
                self.transactions.learn_prepared(xid, prepared);
                continue;
            }
            self.transactions.event(event.header(), event.body(), sink)?;
        }
        Ok(())
    }
}

//! An exact read of one table for a comparison: its rows, and what changed in it from before the read on.
//!
//! The rows are of a moment between two positions. The changes are followed from the first on, so that by the second the
//! table's state is known exactly, however busily it is written: putting a change on a row that holds it already changes
//! nothing.

use std::sync::Arc;

use calve_core::{ChangeSink, Error, ErrorKind, LoadReader, Position, Result, SourceTable, TableName, TableSchema};
use calve_spool::Spools;

use crate::connection;
use crate::load::SnapshotReader;
use crate::server::Server;
use crate::settings::MySqlSettings;
use crate::snapshot_place::SnapshotPlace;
use crate::source::{Stream, read_server};
use crate::stream::{BinlogReader, Replica};
use crate::transactions::Transactions;

/// One table, read at the end of the log.
pub struct TableWitness {
    settings: MySqlSettings,
    server: Server,
    table: TableName,
    reader: SnapshotReader,
}

/// The table's changes from before its witness' read on.
pub struct WitnessedChanges {
    stream: Stream,
}

impl TableWitness {
    /// Starts reading the table as it is now. Columns that some member of a merged table has [lost](TableSchema::lost_columns) by what
    /// is `recorded` are passed over: those of its rows that were there have values in them in the lake.
    pub async fn open(settings: &MySqlSettings, recorded: &TableSchema) -> Result<Self> {
        let table = &recorded.table;
        let mut settings = settings.clone();
        let lost: Vec<String> = recorded.lost_columns().map(|(column, _)| column.to_owned()).collect();
        settings.conversions.merges = settings.conversions.merges.without(table, &lost);
        let settings = &settings;
        let mut conn = connection::open(&settings.connect).await?;
        let mut server = read_server(&mut conn, settings).await?;
        server.conversions.rules = server.conversions.rules.without_layouts();
        let _ = conn.disconnect().await;
        let mut place = SnapshotPlace::find(settings, &server, None).await?;
        let MySqlSettings { connect, load_parallelism, .. } = settings;
        let tables = std::slice::from_ref(table);
        let reader = SnapshotReader::open(connect, &server, tables, *load_parallelism, &mut place).await?;
        Ok(Self { settings: settings.clone(), server, table: table.clone(), reader })
    }

    /// The table's schema.
    pub fn schema(&self) -> Result<Arc<TableSchema>> {
        self.reader.schema(&self.table).ok_or_else(|| match self.reader.refusal(&self.table) {
            Some(reason) => Error::new(ErrorKind::Config, format!("cannot read table {}: {reason}", self.table)),
            None => Error::new(ErrorKind::Bug, format!("table {} was read without its schema", self.table)),
        })
    }

    /// The rows.
    pub fn reader(&mut self) -> &mut dyn LoadReader {
        &mut self.reader
    }

    /// Done with the rows: from here on the changes. [`TableIndex`](calve_core::TableIndex) 0 is the table.
    pub async fn changes(self) -> Result<WitnessedChanges> {
        let (schema, from): (_, Position) = (self.schema()?, self.reader.position().clone());
        let Self { settings, server, table, reader } = self;
        drop(reader);
        let tables = [SourceTable { name: table, schema }];
        let reader = BinlogReader::open(&settings, &from, None, Replica::Guest).await?;
        let transactions = Transactions::new(
            server.flavour,
            server.lower_case_table_names,
            &from,
            None,
            &tables,
            Spools::new(&settings.spill_dir),
        )?
        .with_settings(&settings);
        Ok(WitnessedChanges { stream: Stream::new(settings, reader, transactions) })
    }

    /// Done without the changes.
    pub fn close(self) {
        drop(self.reader);
    }
}

impl WitnessedChanges {
    /// As [`ChangeSource::poll`](calve_core::ChangeSource::poll).
    pub async fn poll(&mut self, sink: &mut dyn ChangeSink) -> Result<()> {
        self.stream.poll(sink).await
    }

    /// Ends the stream.
    pub fn close(self) {
        drop(self.stream);
    }
}

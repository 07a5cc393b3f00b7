//! An exact read of one table for a comparison: its rows at one position, and what changed in it from there on.
//!
//! The snapshot comes from a temporary slot, and the same slot then streams what was committed after it. So the state of the
//! table at any later position is known exactly, however busily it is written; and nothing is left behind, however the
//! process ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use calve_core::{
    ChangeSink, ColumnType, Error, ErrorKind, LoadReader, Lsn, Position, Result, SourceTable, TableName, TableSchema,
    ValueRules,
};
use calve_spool::Spools;
use tokio_postgres::Client;

use crate::column_kind::binary_safe;
use crate::guard::Guard;
use crate::labels;
use crate::load::SnapshotReader;
use crate::partitions::Watch;
use crate::pgoutput::Decoder;
use crate::publication::Membership;
use crate::slot::{self, ExportedSnapshot};
use crate::source::{PostgresSettings, stream_settings, temporary_slot, wal_sender_timeout};
use crate::stream::Stream;
use crate::transport::WalStream;

/// One table at one position.
pub struct TableWitness {
    settings: PostgresSettings,
    table: TableName,
    slot: String,
    snapshot: ExportedSnapshot,
    reader: SnapshotReader,
}

/// The table's changes after its witness' position.
pub struct WitnessedChanges {
    client: Client,
    stream: Stream,
}

/// The rules, under which columns stay text that were loaded as such by a version that knew no type of theirs.
fn with_texts(rules: &ValueRules, recorded: &TableSchema) -> ValueRules {
    let texts = recorded.columns.iter().filter(|column| column.ty == ColumnType::String && !binary_safe(column));
    let texts: Vec<String> = texts.map(|column| column.name.clone()).collect();
    let (rules, of) = (rules.without_layouts(), recorded.table.clone());
    ValueRules::new(move |table| {
        let mut rules = rules.table(table);
        if *table == of {
            // A column may have gone since.
            rules.of_this_table = false;
            for text in &texts {
                rules.columns.entry(text.clone()).or_default().ty.get_or_insert(ColumnType::String);
            }
        }
        rules
    })
}

impl TableWitness {
    /// Fixes a position and starts reading the table as it is there.
    /// What the rows of the `recorded` schema have as text is read as that.
    pub async fn open(settings: &PostgresSettings, recorded: &TableSchema) -> Result<Self> {
        let table = &recorded.table;
        let settings = &PostgresSettings { rules: with_texts(&settings.rules, recorded), ..settings.clone() };
        let slot = temporary_slot(&settings.slot);
        let snapshot = ExportedSnapshot::create(&settings.connect, &slot).await?;
        let reader = SnapshotReader::open(
            &settings.connect,
            &snapshot.name,
            Position::Postgres(snapshot.position),
            std::slice::from_ref(table),
            settings.load_parallelism,
            &settings.rules,
        )
        .await;
        match reader {
            Ok(reader) => Ok(Self { settings: settings.clone(), table: table.clone(), slot, snapshot, reader }),
            Err(error) => {
                snapshot.release().await;
                Err(error)
            }
        }
    }

    /// The table's schema at the position. Partitions and labels are none of a comparison's business.
    pub fn schema(&self) -> Result<Arc<TableSchema>> {
        let bare = |schema: Arc<TableSchema>| {
            Arc::new(TableSchema { partitions: None, labels: BTreeMap::new(), ..(*schema).clone() })
        };
        self.reader.schema(&self.table).map(bare).ok_or_else(|| match self.reader.refusal(&self.table) {
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
        let schema = self.schema()?;
        let Self { settings, table, slot, snapshot, reader } = self;
        drop(reader);
        let client = settings.connect.connect_sql().await?;
        let timeout = wal_sender_timeout(&client).await?;
        let names = vec![table.clone()];
        let membership = Membership::read(&client, &settings.publication, &names).await?;

        let binary = schema.kept().columns.iter().all(binary_safe);
        let from = snapshot.position;
        let command = slot::start_command(&slot, from, &settings.publication, binary);
        let connection = snapshot.stream(&slot, &command).await?;
        let wal = WalStream::spawn(connection, Lsn(0), stream_settings(timeout, settings.read_ahead_bytes));
        let partitions = Watch::new(&[], &BTreeSet::new());
        let labels = labels::Watch::new(&[]);
        let guard = Guard::spawn(settings.connect, settings.publication, names.clone(), membership, partitions, labels);
        let spools = Spools::new(&settings.spill_dir);
        let decoder = Decoder::new(&[SourceTable { name: table, schema }], binary, spools, settings.rules);
        Ok(WitnessedChanges { client, stream: Stream::new(wal, guard, decoder, names, slot) })
    }

    /// Done without the changes.
    pub async fn close(self) {
        drop(self.reader);
        self.snapshot.release().await;
    }
}

impl WitnessedChanges {
    /// As [`ChangeSource::poll`](calve_core::ChangeSource::poll).
    pub async fn poll(&mut self, sink: &mut dyn ChangeSink) -> Result<()> {
        self.stream.poll(Some(&self.client), sink).await
    }

    /// Ends the stream; the slot goes with it.
    pub async fn close(self) {
        self.stream.close().await;
    }
}

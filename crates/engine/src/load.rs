//! Loads: tables read whole at one position, written append-only, and handed to the committer to appear at once.

use std::collections::{BTreeMap, BTreeSet};

use calve_core::{
    DeltaWriter, Error, ErrorKind, Excerpt, LoadEvent, LoadReader, LoadWriter, Position, Result, StagedDelta,
    StopReason, Substituted, TableIndex, TableName, ValueRules,
};
use tokio::sync::mpsc;

use crate::observe::{Event, Observer};

/// How a table's load ended.
#[derive(Debug)]
pub(crate) enum Finished {
    /// Its files are written and durable.
    Staged { table: TableIndex, delta: StagedDelta, position: Position },
    /// The table cannot be loaded.
    Failed { table: TableIndex, reason: StopReason },
}

/// Tables being read at one position.
pub(crate) struct Load<'a> {
    pub(crate) reader: Box<dyn LoadReader>,
    /// The tables that are not finished.
    pub(crate) tables: BTreeMap<TableName, TableIndex>,
    pub(crate) writer: &'a dyn DeltaWriter,
    pub(crate) values: &'a ValueRules,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) finished: mpsc::Sender<Finished>,
}

impl Load<'_> {
    /// Reads to the end. Files of tables that were not finished are removed again.
    pub(crate) async fn run(mut self) -> Result<()> {
        let mut open = BTreeMap::new();
        let result = self.read(&mut open).await;
        for writer in open.into_values() {
            writer.writer.abort().await;
        }
        result
    }

    async fn read(&mut self, open: &mut BTreeMap<TableName, Open>) -> Result<()> {
        let mut failed = BTreeSet::new();
        while !self.tables.is_empty() {
            let Some(event) = self.reader.next().await? else {
                return Err(Error::new(ErrorKind::Bug, "a load ended before all of its tables were read"));
            };
            match event {
                LoadEvent::Rows(name, rows) => {
                    if failed.contains(&name) {
                        continue;
                    }
                    let (count, substituted) = (rows.len() as u64, rows.substituted());
                    let Some(table) = self.open(open, &name, &mut failed).await? else { continue };
                    table.rows += count;
                    table.substituted.add(substituted);
                    table.writer.append(rows).await?;
                    let rows = table.rows;
                    let estimated = self.reader.estimated_rows(&name);
                    self.observer.event(&Event::LoadProgress { table: name, rows, estimated });
                }
                LoadEvent::Done(name) => {
                    if failed.contains(&name) {
                        continue;
                    }
                    if self.open(open, &name, &mut failed).await?.is_none() {
                        continue;
                    }
                    let Some(table) = open.remove(&name) else { continue };
                    let Substituted { nulled, clamped } = table.substituted;
                    let delta = StagedDelta { nulled, clamped, ..table.writer.finish().await? };
                    let position = self.reader.exact(&name).unwrap_or_else(|| self.reader.position()).clone();
                    self.finish(&name, |table| Finished::Staged { table, delta, position }).await;
                }
                LoadEvent::Failed(name, reason) => {
                    if let Some(table) = open.remove(&name) {
                        table.writer.abort().await;
                    }
                    self.finish(&name, |table| Finished::Failed { table, reason }).await;
                    failed.insert(name);
                }
            }
        }
        Ok(())
    }

    /// The table's writer, started where it has none yet. None where the lake cannot take the table as it is by now, which then has
    /// failed.
    async fn open<'o>(
        &mut self,
        open: &'o mut BTreeMap<TableName, Open>,
        name: &TableName,
        failed: &mut BTreeSet<TableName>,
    ) -> Result<Option<&'o mut Open>> {
        if !open.contains_key(name) {
            let schema = self.reader.schema(name).ok_or_else(|| {
                Error::new(ErrorKind::Bug, format!("a load brought rows of {name}, which was not asked for"))
            })?;
            let excerpt = Excerpt::of(&schema, self.values)?;
            let writer = match self.writer.start_load(schema, excerpt).await {
                Ok(writer) => writer,
                Err(error) if error.kind() == ErrorKind::Config => {
                    let reason = StopReason {
                        state: "cannot be read".into(),
                        detail: error.to_string(),
                        remedy: format!("run `calve reload {name}` once that is mended"),
                    };
                    self.finish(name, |table| Finished::Failed { table, reason }).await;
                    failed.insert(name.clone());
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            open.insert(name.clone(), Open { writer, rows: 0, substituted: Substituted::default() });
        }
        Ok(open.get_mut(name))
    }

    async fn finish(&mut self, name: &TableName, how: impl FnOnce(TableIndex) -> Finished) {
        if let Some(table) = self.tables.remove(name) {
            // A committer that is gone takes the session with it.
            let _ = self.finished.send(how(table)).await;
        }
    }
}

/// A table whose rows are being written.
struct Open {
    writer: Box<dyn LoadWriter>,
    rows: u64,
    substituted: Substituted,
}

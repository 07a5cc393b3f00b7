//! Writes data and delete files onto the simulated disk, and refuses batches that break the fold's promise.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, Int64Array, RecordBatch};
use async_trait::async_trait;
use calve_core::{
    DeltaBatch, DeltaWriter, EncodeJob, Error, ErrorKind, Excerpt, Ground, IncompleteRows, LoadWriter, LogOp, Onto,
    Result, RowBuffer, StagedDelta, StopReason, TableName, TableSchema, Written,
};

use super::change_log::LogRow;
use super::disk::Content;
use super::faults::StepKind;
use super::lake::{DeltaFiles, Table};
use super::retired::Retired;
use super::source_log::Row;
use super::world::{Process, World};

/// The port.
pub(crate) struct SimWriter(pub(crate) Process);

/// Begins the name of every file a process writes, so that files of no intent are found.
pub(crate) fn run_prefix(process: usize) -> String {
    format!("run-{process:03}-")
}

/// Begins the path of every file that a process writes for a table.
pub(crate) fn prefix(table: &TableName, process: usize) -> String {
    format!("{}/{}", table.name, run_prefix(process))
}

/// A name that the process has not used before.
fn new_path(process: &Process, world: &mut World, table: &TableName, kind: &str) -> String {
    let number = world.checker.count_file();
    format!("{}{number:06}-{kind}", prefix(table, process.number))
}

#[async_trait]
impl DeltaWriter for SimWriter {
    async fn write(&self, table: &TableName, job: EncodeJob, _: Onto, ground: &Ground) -> Result<Written> {
        let batch = job()?;
        let replace = batch.replace;
        let Contents { mut rows, mut deletes, log, mut retired } = Contents::of(&batch);
        if let Some(incomplete) = &batch.incomplete {
            match look_up(&self.0, table, incomplete, ground).await? {
                Ok(found) => {
                    for (row, deleted_at) in found.into_iter().zip(deleted_at(&incomplete.rows)) {
                        match deleted_at {
                            Some(at) => retired.push((row.0, row.1, at)),
                            None => rows.push(row),
                        }
                    }
                }
                Err(missing) => {
                    return Ok(Written::Stops(StopReason::row_missing(table, &format!("id = {missing}"))));
                }
            }
        }
        if let Some(at) = batch.retire {
            retired.extend(remaining(&self.0, table, &deletes, at, ground).await?);
            deletes.clear();
        }
        let put: Vec<i64> = rows.iter().map(|row| row.0).chain(retired.iter().map(|row| row.0)).collect();
        if let Err(broken) = check_fold(replace, &put, &deletes) {
            self.0.act(|w| w.violate(format!("a batch of {table} {broken}: rows {rows:?}, deletes {deletes:?}")));
        }
        let counts = ((rows.len() + log.len() + retired.len()) as u64, deletes.len() as u64);
        let files = self
            .0
            .step(
                StepKind::Write,
                || format!("write {} rows, {} deletes of {table}", counts.0, counts.1),
                |w| {
                    let mut files = DeltaFiles::default();
                    if !rows.is_empty() {
                        let path = new_path(&self.0, w, table, "data");
                        w.disk.write(&path, Content::Data(rows));
                        files.data.push(path);
                    }
                    if !log.is_empty() {
                        let path = new_path(&self.0, w, table, "log");
                        w.disk.write(&path, Content::Log(log));
                        files.data.push(path);
                    }
                    if !retired.is_empty() {
                        let path = new_path(&self.0, w, table, "retired");
                        w.disk.write(&path, Content::Retired(retired));
                        files.data.push(path);
                    }
                    if !deletes.is_empty() {
                        let path = new_path(&self.0, w, table, "deletes");
                        w.disk.write(&path, Content::Deletes(deletes));
                        files.deletes.push(path);
                    }
                    Ok(files)
                },
            )
            .await?;
        let delta = staged(replace, counts, &files);
        sync(&self.0, &delta.files).await?;
        Ok(Written::Delta(delta))
    }

    async fn start_load(&self, schema: Arc<TableSchema>, excerpt: Excerpt) -> Result<Box<dyn LoadWriter>> {
        let (process, table) = (self.0.clone(), schema.table.clone());
        Ok(Box::new(SimLoadWriter { process, table, excerpt, rows: 0, paths: Vec::new() }))
    }

    async fn discard(&self, deltas: &[StagedDelta]) {
        remove(&self.0, deltas.iter().flat_map(|delta| &delta.files));
    }
}

/// The rows with the values that the table has for them; else a key that it does not have.
async fn look_up(
    process: &Process,
    table: &TableName,
    incomplete: &IncompleteRows,
    ground: &Ground,
) -> Result<std::result::Result<Vec<Row>, i64>> {
    let (new, old) = (incomplete.rows.column(0).clone(), incomplete.keys.column(0).clone());
    let asked: Vec<(i64, i64)> =
        int64(&*new).values().iter().copied().zip(int64(&*old).values().iter().copied()).collect();
    let effect = |w: &mut World| {
        let now = standing(w, table, ground)?;
        let mut rows = now.rows_with(&ground.staged, &w.disk);
        // A row that went comes again where its transaction does so in pieces.
        rows.extend(now.retired_with(&ground.staged, &w.disk).into_iter().map(|(key, value, _)| (key, value)));
        let value = |key: i64| rows.iter().find(|(found, _)| *found == key).map(|(_, value)| *value);
        Ok(asked.iter().map(|(new, old)| value(*old).map(|value| (*new, value)).ok_or(*old)).collect())
    };
    process.step(StepKind::Read, || format!("look up {} rows of {table}", asked.len()), effect).await
}

/// The table, if it still is what something is put on.
fn standing<'w>(world: &'w World, table: &TableName, ground: &Ground) -> Result<&'w Table> {
    let now = world
        .lake
        .tables
        .get(table)
        .filter(|now| now.stamp.as_ref().map(|stamp| stamp.checkpoint) == ground.base && !now.is_rolled_back());
    now.ok_or_else(|| Error::new(ErrorKind::Retry, format!("table {table} is not what values were to be looked up in")))
}

/// The rows that a table holds, but those of some keys, as deleted at this time where they were not yet.
async fn remaining(
    process: &Process,
    table: &TableName,
    except: &[i64],
    at: i64,
    ground: &Ground,
) -> Result<Vec<Retired>> {
    let effect = |w: &mut World| {
        let now = standing(w, table, ground)?;
        let living = now.rows_with(&ground.staged, &w.disk).into_iter().map(|(key, value)| (key, value, at));
        let all = living.chain(now.retired_with(&ground.staged, &w.disk));
        Ok(all.filter(|(key, ..)| !except.contains(key)).collect())
    };
    process.step(StepKind::Read, || format!("read the rows of {table} that stay as deleted ones"), effect).await
}

struct SimLoadWriter {
    process: Process,
    table: TableName,
    excerpt: Excerpt,
    rows: u64,
    paths: Vec<String>,
}

#[async_trait]
impl LoadWriter for SimLoadWriter {
    async fn append(&mut self, rows: RowBuffer) -> Result<()> {
        assert!(rows.ops().iter().all(|op| *op == calve_core::RowOp::Insert), "a load brings inserts only");
        let (arrays, _) = self.excerpt.loaded(rows)?;
        let rows = pairs(int64(&*arrays[0]), int64(&*arrays[1]));
        self.rows += rows.len() as u64;
        let (process, table) = (&self.process, &self.table);
        let path = process
            .step(
                StepKind::Write,
                || format!("write {} loaded rows of {table}", rows.len()),
                |w| {
                    let path = new_path(process, w, table, "data");
                    w.disk.write(&path, Content::Data(rows.clone()));
                    Ok(path)
                },
            )
            .await?;
        self.paths.push(path);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<StagedDelta> {
        let files = DeltaFiles { data: self.paths, deletes: Vec::new() };
        let delta = staged(true, (self.rows, 0), &files);
        sync(&self.process, &delta.files).await?;
        Ok(delta)
    }

    async fn abort(self: Box<Self>) {
        remove(&self.process, &self.paths);
    }
}

/// Files and their directories are fsynced: from here on a loss of power leaves them.
async fn sync(process: &Process, files: &[String]) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let effect = |w: &mut World| {
        for path in files {
            w.disk.sync(path);
        }
        Ok(())
    };
    process.step(StepKind::Write, || format!("sync {} files", files.len()), effect).await
}

fn remove<'a>(process: &Process, files: impl IntoIterator<Item = &'a String>) {
    process.act(|w| {
        for path in files {
            w.disk.remove(path);
            w.note(|| format!("P{} removes {path}", process.number));
        }
        w.check_files();
    });
}

fn staged(replace: bool, (rows, deletes): (u64, u64), files: &DeltaFiles) -> StagedDelta {
    StagedDelta {
        replace,
        reshapes: false,
        rows,
        deletes,
        nulled: 0,
        clamped: 0,
        changes: 0,
        bytes: 16 * rows + 8 * deletes,
        files: files.data.iter().chain(&files.deletes).cloned().collect(),
        body: serde_json::to_value(files).expect("paths are JSON"),
    }
}

fn int64(array: &dyn Array) -> &Int64Array {
    array.as_any().downcast_ref().expect("every simulated column is a long")
}

fn pairs(keys: &Int64Array, values: &Int64Array) -> Vec<Row> {
    keys.values().iter().copied().zip(values.values().iter().copied()).collect()
}

/// What a batch holds.
struct Contents {
    rows: Vec<Row>,
    deletes: Vec<i64>,
    /// What is of the log rather than of a load.
    log: Vec<LogRow>,
    retired: Vec<Retired>,
}

impl Contents {
    fn of(batch: &DeltaBatch) -> Self {
        let column = |batch: &RecordBatch, index| batch.column(index).clone();
        let log = log_rows(batch);
        let rows = if batch.rows.num_rows() == 0 || !log.is_empty() {
            Vec::new()
        } else {
            pairs(int64(&*column(&batch.rows, 0)), int64(&*column(&batch.rows, 1)))
        };
        let deletes = if batch.deletes.num_rows() == 0 {
            Vec::new()
        } else {
            int64(&*column(&batch.deletes, 0)).values().to_vec()
        };
        if !batch.schema.retires_rows() {
            return Self { rows, deletes, log, retired: Vec::new() };
        }
        let (mut living, mut retired) = (Vec::new(), Vec::new());
        for (row, at) in rows.into_iter().zip(deleted_at(&batch.rows)) {
            match at {
                Some(at) => retired.push((row.0, row.1, at)),
                None => living.push(row),
            }
        }
        Self { rows: living, deletes, log, retired }
    }
}

/// When each row was deleted; None of those that are there, and of tables that do not say so.
fn deleted_at(rows: &RecordBatch) -> Vec<Option<i64>> {
    let times = rows.columns().get(2).and_then(|times| times.as_primitive_opt::<TimestampMicrosecondType>());
    times.map_or_else(|| vec![None; rows.num_rows()], |times| times.iter().collect())
}

/// Nothing where the rows are what a load has read, or of a table that is no log.
fn log_rows(batch: &DeltaBatch) -> Vec<LogRow> {
    if !batch.schema.keeps_log() {
        return Vec::new();
    }
    let columns = batch.rows.columns();
    let (ops, ordinals) = (columns[2].as_string::<i32>(), int64(&*columns[3]));
    let cell = |column: usize, row: usize| {
        let cells = int64(&*columns[column]);
        (!cells.is_null(row)).then(|| cells.value(row))
    };
    let row = |row: usize| LogRow {
        ordinal: ordinals.value(row),
        op: ops.value(row).to_owned(),
        key: cell(0, row),
        value: cell(1, row),
    };
    let rows = (0..batch.rows.num_rows()).map(row);
    rows.filter(|row| row.op != LogOp::Read.word()).collect()
}

/// At most one row and one delete a key; a replace has nothing to delete.
fn check_fold(replace: bool, put: &[i64], deletes: &[i64]) -> std::result::Result<(), &'static str> {
    if put.iter().collect::<BTreeSet<_>>().len() < put.len() {
        return Err("puts a key twice");
    }
    if deletes.iter().collect::<BTreeSet<_>>().len() < deletes.len() {
        return Err("deletes a key twice");
    }
    if replace && !deletes.is_empty() {
        return Err("replaces the table and deletes from it as well");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fold_that_names_a_key_twice_is_noticed() {
        assert_eq!(check_fold(false, &[1, 2], &[1, 3]), Ok(()));
        assert!(check_fold(false, &[1, 1], &[]).is_err());
        assert!(check_fold(false, &[], &[1, 1]).is_err());
        assert!(check_fold(true, &[1], &[1]).is_err());
    }
}

//! What is deleted: for each key the newest delete of it, and for each file the positions that went.
//!
//! An equality delete hits the rows of strictly older files, a position delete those of one file that is not newer. A key
//! is kept as a hash of 128 bits beside a sequence number, whatever its length.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use calve_core::{Error, ErrorKind, Result, TableName};
use iceberg::spec::Struct;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector};
use parquet::file::metadata::PageIndexPolicy;

use super::asked::Asked;
use super::columns::{FileColumns, TableColumn};
use super::keys::{BuildAsIs, KeyCells};
use super::plan::{EqualityDeleteFile, Plan, PlannedFile};
use crate::storage;

/// Bytes that a key takes in the index at most, with the room that a hash map leaves.
pub(crate) const KEY_BYTES: u64 = 72;

/// How many passes keep the index of so many deletes below `memory` bytes.
pub(crate) fn passes(deleted_keys: u64, memory: u64) -> u32 {
    let bytes = deleted_keys.saturating_mul(KEY_BYTES);
    u32::try_from(bytes.div_ceil(memory.max(1)).max(1)).unwrap_or(u32::MAX)
}

/// Reserved field ids of position-delete files (Iceberg specification, "Reserved Field IDs").
const FILE_PATH_ID: i32 = 2_147_483_546;
const POSITION_ID: i32 = 2_147_483_545;

/// A part of all keys: those whose hash falls into bucket `bucket` of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) bucket: u32,
    pub(crate) of: u32,
}

/// Deletes that compare the same columns in the same partition.
pub(crate) struct DeletedKeys {
    /// The columns compared.
    pub(crate) columns: Vec<TableColumn>,
    /// Whether these are the key's, so that only one part of them was read.
    pub(crate) of_key: bool,
    /// The partition they count for; None for all.
    partition: Option<(i32, Struct)>,
    /// The newest delete of each key.
    newest: HashMap<u128, i64, BuildAsIs>,
    /// The newest of all.
    last: i64,
}

impl DeletedKeys {
    /// Whether a file may hold rows that are deleted.
    pub(crate) fn may_hit(&self, data: &PlannedFile) -> bool {
        self.last > data.sequence && self.partition.as_ref().is_none_or(|partition| *partition == data.partition)
    }

    /// Whether a row of a file with this sequence number is deleted.
    pub(crate) fn hits(&self, hash: u128, sequence: i64) -> bool {
        self.newest.get(&hash).is_some_and(|newest| *newest > sequence)
    }
}

/// All that is deleted, as far as it matters to one part of the keys.
#[derive(Default)]
pub(crate) struct DeleteIndex {
    pub(crate) keys: Vec<DeletedKeys>,
    /// By data file, ascending.
    positions: HashMap<String, Vec<u64>>,
}

impl DeleteIndex {
    /// Reads the delete files of the plan. `columns` finds a column by its field id; `key` is the key's, in its order. Where
    /// keys are `asked` for, no other is kept.
    pub(crate) fn read(
        table: &TableName,
        plan: &Plan,
        key: &[TableColumn],
        columns: impl Fn(i32) -> Option<TableColumn>,
        part: Part,
        asked: Option<&Asked>,
    ) -> Result<Self> {
        let mut index = Self::default();
        let mut key_ids: Vec<i32> = key.iter().map(|column| column.field_id).collect();
        key_ids.sort_unstable();
        for (scope, files) in by_scope(&plan.equality_deletes) {
            let of_key = *scope.ids == key_ids;
            let compared = if of_key { Some(key.to_vec()) } else { scope.ids.iter().map(|id| columns(*id)).collect() };
            let compared = compared.ok_or_else(|| {
                let first = files.first().map_or_else(String::new, |file| file.location.clone());
                unreadable_at(table, &first, "it compares columns that the table does not have")
            })?;
            // Room for all at once, instead of doubling on the way; not in each of many partitions for all that is asked for.
            let rows = files.iter().map(|file| file.rows).fold(0, u64::saturating_add);
            let rows = if of_key { rows / u64::from(part.of) } else { rows };
            let asked_of = |asked: &Asked| if scope.partition.is_some() { 0 } else { rows.min(asked.len() as u64) };
            let rows = if of_key { asked.map_or(rows, asked_of) } else { rows };
            let mut set = DeletedKeys {
                columns: compared,
                of_key,
                partition: scope.partition.cloned(),
                newest: HashMap::with_capacity_and_hasher(usize::try_from(rows).unwrap_or(0), BuildAsIs::default()),
                last: i64::MIN,
            };
            for file in files {
                set.add(table, file, part, asked.filter(|_| of_key))?;
            }
            index.keys.push(set);
        }
        index.add_positions(table, plan)?;
        Ok(index)
    }

    fn add_positions(&mut self, table: &TableName, plan: &Plan) -> Result<()> {
        if plan.position_deletes.is_empty() {
            return Ok(());
        }
        let data: HashMap<&str, i64> = plan.data.iter().map(|file| (file.location.as_str(), file.sequence)).collect();
        let wanted = [
            TableColumn { field_id: FILE_PATH_ID, name: "file_path".to_owned(), arrow: DataType::Utf8 },
            TableColumn { field_id: POSITION_ID, name: "pos".to_owned(), arrow: DataType::Int64 },
        ];
        for deletes in &plan.position_deletes {
            each_batch(table, deletes, &wanted, None, |columns| {
                let [paths, positions] = columns else { return Err("it lacks a column".to_owned()) };
                let (paths, positions) = (paths.as_string::<i32>(), positions.as_primitive::<Int64Type>());
                for (path, position) in paths.iter().zip(positions) {
                    let (path, position) = path.zip(position).ok_or("a position in it is NULL")?;
                    if data.get(path).is_some_and(|sequence| deletes.sequence >= *sequence) {
                        let position = u64::try_from(position).map_err(|_| "a position in it is negative")?;
                        match self.positions.get_mut(path) {
                            Some(known) => known.push(position),
                            None => drop(self.positions.insert(path.to_owned(), vec![position])),
                        }
                    }
                }
                Ok(())
            })?;
        }
        for positions in self.positions.values_mut() {
            positions.sort_unstable();
            positions.dedup();
        }
        Ok(())
    }

    /// What is left of a file of `rows` rows once the deleted positions are gone; None where none is deleted.
    pub(crate) fn remaining(&self, location: &str, rows: usize) -> Option<RowSelection> {
        let deleted = self.positions.get(location)?;
        let mut selectors = Vec::with_capacity(deleted.len() * 2 + 1);
        let mut next = 0;
        for position in deleted.iter().filter_map(|position| usize::try_from(*position).ok()).filter(|at| *at < rows) {
            if position > next {
                selectors.push(RowSelector::select(position - next));
            }
            selectors.push(RowSelector::skip(1));
            next = position + 1;
        }
        if rows > next {
            selectors.push(RowSelector::select(rows - next));
        }
        Some(RowSelection::from(selectors))
    }
}

/// What deletes compare, and where.
#[derive(PartialEq, Eq, Hash)]
struct Scope<'a> {
    /// Ascending.
    ids: &'a [i32],
    /// None: everywhere.
    partition: Option<&'a (i32, Struct)>,
}

/// Files of deletes by what they compare and where, in the order in which these come first.
fn by_scope(deletes: &[EqualityDeleteFile]) -> Vec<(Scope<'_>, Vec<&PlannedFile>)> {
    let mut places: HashMap<Scope<'_>, usize> = HashMap::new();
    let mut scopes: Vec<(Scope<'_>, Vec<&PlannedFile>)> = Vec::new();
    for deletes in deletes {
        let scope = || Scope { ids: &deletes.ids, partition: (!deletes.global).then_some(&deletes.file.partition) };
        let place = *places.entry(scope()).or_insert_with(|| {
            scopes.push((scope(), Vec::new()));
            scopes.len() - 1
        });
        scopes[place].1.push(&deletes.file);
    }
    scopes
}

impl DeletedKeys {
    fn add(&mut self, table: &TableName, file: &PlannedFile, part: Part, asked: Option<&Asked>) -> Result<()> {
        self.last = self.last.max(file.sequence);
        let Self { columns, of_key, newest, .. } = self;
        each_batch(table, file, columns, asked, |columns| {
            let mut cells = KeyCells::new(columns).ok_or("it compares columns of a type that cannot be a key")?;
            let rows = columns.first().map_or(0, Array::len);
            for row in 0..rows {
                let hash = cells.hash(row);
                let is_other = asked.is_some_and(|asked| asked.place(hash).is_none());
                if *of_key && (is_other || hash.bucket(part.of) != part.bucket) {
                    continue;
                }
                let known = newest.entry(hash.0).or_insert(file.sequence);
                *known = (*known).max(file.sequence);
            }
            Ok(())
        })
    }
}

/// Reads the columns wanted of all rows of a file, or of those at least whose keys are `asked` for.
fn each_batch(
    table: &TableName,
    file: &PlannedFile,
    wanted: &[TableColumn],
    asked: Option<&Asked>,
    mut work: impl FnMut(&[ArrayRef]) -> std::result::Result<(), String>,
) -> Result<()> {
    let bad = |why: &str| unreadable(table, file, why);
    let reader = open(table, file, asked.is_some())?;
    let reader = match asked {
        Some(asked) => asked.narrow(reader).0,
        None => reader,
    };
    let columns = FileColumns::find(reader.parquet_schema(), wanted).map_err(|why| bad(&why))?;
    let batches = reader.with_projection(columns.mask.clone()).build().map_err(|error| bad(&error.to_string()))?;
    for batch in batches {
        let batch = batch.map_err(|error| bad(&error.to_string()))?;
        let arrays = columns.of(&batch).map_err(|why| bad(&why))?;
        work(&arrays).map_err(|why| bad(&why))?;
    }
    Ok(())
}

/// Opens a file of the table, with what it says of its pages or without.
pub(crate) fn open(
    table: &TableName,
    file: &PlannedFile,
    pages: bool,
) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    let path = storage::local_path(&file.location).ok_or_else(|| unreadable(table, file, "it is no local file"))?;
    let opened = File::open(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => unreadable(table, file, "it is missing"),
        _ => storage::file_error("read", &file.location, error),
    })?;
    // By the Parquet types alone, so that every writer's columns come as the same Arrow types.
    let policy = if pages { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true).with_page_index_policy(policy);
    ParquetRecordBatchReaderBuilder::try_new_with_options(opened, options)
        .map_err(|error| unreadable(table, file, &error.to_string()))
}

/// A file that the table refers to is not what it should be.
pub(crate) fn unreadable(table: &TableName, file: &PlannedFile, why: &str) -> Error {
    unreadable_at(table, &file.location, why)
}

fn unreadable_at(table: &TableName, location: &str, why: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!(
            "table {table}: its file {location} cannot be used: {why}; if the file is lost, `calve reload {table}` reads the \
             table again from the source"
        ),
    )
}

/// Shared by the threads that read data.
pub(crate) type SharedIndex = Arc<DeleteIndex>;

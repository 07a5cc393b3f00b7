//! Cells of single rows, found by their keys in a table and in what was staged on it: all that are asked for in one pass.
//!
//! Files are left out by the bounds in their manifest entries, row groups and pages by their statistics; of what stays the key
//! is read first, and the columns wanted only of the rows found. Nothing is held but the keys that are asked for, the deletes of
//! these, and one batch of values at a time.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_select::take::take;
use calve_core::{Error, ErrorKind, IncompleteRows, Result, StagedDelta, TableName, TableSchema};
use iceberg::spec::TableMetadata;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use super::asked::Asked;
use super::columns::TableColumn;
use super::deletes::{DeleteIndex, Part};
use super::keys::KeyCells;
use super::plan::Plan;
use super::scan::Scan;
use crate::delta::TableLayout;
use crate::partition;
use crate::schema::without_ids;

/// Memory for deletes that others wrote, and that are not of keys asked for.
pub(super) const DELETES_BYTES: u64 = 64 << 20;

/// A look-up, ready to be made.
pub(crate) struct LookUp {
    table: TableName,
    metadata: Arc<TableMetadata>,
    /// The key's columns, in its order.
    key: Vec<TableColumn>,
    /// The columns wanted.
    wanted: Vec<TableColumn>,
    asked: Arc<Asked>,
    plan: Plan,
}

/// The columns of a layout, as a table's files are read by.
pub(super) struct Layer {
    /// The key's, in its order.
    pub(super) key: Vec<TableColumn>,
    /// All, in the layout's order.
    pub(super) columns: Vec<TableColumn>,
}

impl Layer {
    pub(super) fn of(layout: &TableLayout) -> Result<Self> {
        let bug = |what: &str| Error::new(ErrorKind::Bug, format!("table {}: {what}", layout.table));
        let columns = layout.arrow.fields().iter().map(|field| {
            let field_id = field.metadata().get(PARQUET_FIELD_ID_META_KEY)?.parse().ok()?;
            Some(TableColumn { field_id, name: field.name().clone(), arrow: without_ids(field.data_type()) })
        });
        let columns = columns.collect::<Option<Vec<TableColumn>>>().ok_or_else(|| bug("a column has no field id"))?;
        let key = layout.key_ids.iter().map(|id| columns.iter().find(|column| column.field_id == *id).cloned());
        let key = key.collect::<Option<Vec<_>>>().ok_or_else(|| bug("a column of the key is missing"))?;
        Ok(Self { key, columns })
    }
}

/// What a look-up found, beside the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Looked {
    /// Data files opened.
    pub(crate) files: usize,
    /// Rows whose keys were read.
    pub(crate) rows: usize,
    /// The first of the keys that was not found.
    pub(crate) missing: Option<usize>,
}

impl LookUp {
    /// Finds out which files of the table's present snapshot, and of what was staged on it, are to be read. Columns are found by
    /// the field ids that `layout` has for them.
    pub(crate) async fn plan(
        layout: &TableLayout,
        metadata: &Arc<TableMetadata>,
        staged: &[StagedDelta],
        rows: &IncompleteRows,
    ) -> Result<Self> {
        let table = layout.table.clone();
        let Layer { key, columns } = Layer::of(layout)?;
        let wanted = columns.into_iter().zip(&rows.missing).filter(|(_, missing)| missing.is_some());
        let wanted = wanted.map(|(column, _)| column).collect();
        let bug = |what: String| Error::new(ErrorKind::Bug, format!("table {table}: {what}"));
        let asked = Asked::new(key.clone(), rows.keys.columns())
            .ok_or_else(|| bug("a row is looked up by a key that cannot be one".to_owned()))?;
        let asked = if layout.key_partitions.is_one() {
            asked
        } else {
            let groups = layout.key_partitions.groups(rows.keys.columns(), rows.keys.num_rows()).map_err(bug)?;
            let partitions = groups.iter().map(|group| partition::widest(&group.partition)).collect();
            asked.within(layout.spec.spec_id(), partitions)
        };
        let mut plan = Plan::with_staged(layout, metadata, staged, Some(&asked)).await?;
        // What was written last is asked for most, and when all is found nothing more is read.
        plan.data.sort_by_key(|file| std::cmp::Reverse(file.sequence));
        plan.check_deletes_of(layout, DELETES_BYTES)?;
        Ok(Self { table, metadata: Arc::clone(metadata), key, wanted, asked: Arc::new(asked), plan })
    }

    /// Hands the rows found to `work`, in batches: which of the keys each is of, and one array for each of the columns wanted. A row
    /// whose key comes more than once does so too.
    pub(crate) fn run(self, mut work: impl FnMut(&[u32], &[ArrayRef]) -> Result<()>) -> Result<Looked> {
        let Self { table, metadata, key, wanted, asked, plan } = self;
        let column = |id: i32| TableColumn::of(metadata.current_schema(), id);
        let all = Part { bucket: 0, of: 1 };
        let deletes = DeleteIndex::read(&table, &plan, &key, column, all, Some(&asked))?;
        let width = key.len();
        let columns = key.iter().cloned().chain(wanted).collect();
        let scan = Scan {
            table,
            columns,
            key,
            part: all,
            deletes: Arc::new(deletes),
            asked: Some(Arc::clone(&asked)),
            except: None,
        };
        let mut looked = Looked::default();
        let mut found = asked.are_told_by_others();
        for file in &plan.data {
            if found.iter().all(|found| *found) {
                break;
            }
            let mut result = Ok(());
            looked.files += 1;
            looked.rows += scan.file(file, |batch| {
                result = places(&asked, &batch[..width], &mut found)
                    .ok_or_else(|| doubled(&scan.table))
                    .and_then(|places| with_equal(&scan.table, &asked, places, &batch[width..], &mut work));
                result.is_ok()
            })?;
            result?;
        }
        looked.missing = found.iter().position(|found| !*found);
        tracing::debug!(
            table = %scan.table, keys = asked.len(), files = looked.files, of = plan.data.len(), rows = looked.rows,
            "values that the log leaves out were looked up"
        );
        Ok(looked)
    }
}

/// Which of the keys each row has. None where one was found before.
fn places(asked: &Asked, key: &[ArrayRef], found: &mut [bool]) -> Option<Vec<u32>> {
    let mut cells = KeyCells::new(key)?;
    let rows = key.first().map_or(0, arrow_array::Array::len);
    (0..rows)
        .map(|row| {
            let place = asked.place(cells.hash(row))?;
            let seen = found.get_mut(usize::try_from(place).ok()?)?;
            (!std::mem::replace(seen, true)).then_some(place)
        })
        .collect()
}

/// Hands rows to `work`, and those again whose key comes more than once.
fn with_equal(
    table: &TableName,
    asked: &Asked,
    mut places: Vec<u32>,
    columns: &[ArrayRef],
    work: &mut impl FnMut(&[u32], &[ArrayRef]) -> Result<()>,
) -> Result<()> {
    work(&places, columns)?;
    let mut rows: Vec<u32> = (0..).take(places.len()).collect();
    loop {
        (rows, places) = rows.iter().zip(&places).filter_map(|(row, place)| Some((*row, asked.equal(*place)?))).unzip();
        if rows.is_empty() {
            return Ok(());
        }
        let rows = UInt32Array::from(rows.clone());
        let again = columns.iter().map(|column| take(column, &rows, None));
        let again = again.collect::<std::result::Result<Vec<_>, _>>().map_err(|error| {
            Error::with_source(ErrorKind::Bug, format!("table {table}: a row found could not be used twice"), error)
        })?;
        work(&places, &again)?;
    }
}

fn doubled(table: &TableName) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!(
            "table {table} has two rows of one key in the lake, so that it cannot be told what an update left alone; run \
             `calve reload {table}`"
        ),
    )
}

/// The encoded key of a row that was looked for, as people read it.
pub(crate) fn shown_key(schema: &TableSchema, keys: &[ArrayRef], row: usize) -> String {
    let columns = KeyCells::new(keys).and_then(|mut cells| calve_core::decode_key(schema, cells.key(row)));
    calve_core::show_key(schema, columns.iter().flatten(), 0)
}

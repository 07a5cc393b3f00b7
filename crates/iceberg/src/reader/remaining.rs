//! All rows of a table and of what was staged on it, but those of some keys.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use calve_core::{Error, ErrorKind, Result, StagedDelta, TableName};
use iceberg::spec::TableMetadata;

use super::asked::Asked;
use super::columns::TableColumn;
use super::deletes::{self, DeleteIndex, Part};
use super::look_up::{DELETES_BYTES, Layer};
use super::plan::Plan;
use super::scan::Scan;
use crate::delta::TableLayout;

/// Memory for the index of deletes of one pass: what else is written goes on beside it.
const INDEX_BYTES: u64 = 32 << 20;

/// What stays of a table, ready to be read.
pub(crate) struct Remaining {
    table: TableName,
    metadata: Arc<TableMetadata>,
    /// The key's columns, in its order.
    key: Vec<TableColumn>,
    /// All columns of the layout.
    columns: Vec<TableColumn>,
    except: Arc<Asked>,
    plan: Plan,
    /// In so many passes the index of deletes keeps within its memory.
    passes: u32,
}

impl Remaining {
    /// Finds out which files of the table's present snapshot, and of what was staged on it, hold its rows. `except` has one column
    /// for each of the key's.
    pub(crate) async fn plan(
        layout: &TableLayout,
        metadata: &Arc<TableMetadata>,
        staged: &[StagedDelta],
        except: &RecordBatch,
    ) -> Result<Self> {
        let table = layout.table.clone();
        let Layer { key, columns } = Layer::of(layout)?;
        let except = Asked::new(key.clone(), except.columns()).ok_or_else(|| {
            Error::new(ErrorKind::Bug, format!("table {table}: a key is left out twice, or cannot be one"))
        })?;
        let plan = Plan::with_staged(layout, metadata, staged, None).await?;
        let deleted = plan.check_deletes_of(layout, DELETES_BYTES)?;
        let passes = deletes::passes(deleted, INDEX_BYTES);
        Ok(Self { table, metadata: Arc::clone(metadata), key, columns, except: Arc::new(except), plan, passes })
    }

    /// Hands the rows to `work`, in batches of bounded size with one array for each of the layout's columns.
    pub(crate) fn run(self, mut work: impl FnMut(Vec<ArrayRef>) -> Result<()>) -> Result<()> {
        let column = |id: i32| TableColumn::of(self.metadata.current_schema(), id);
        for bucket in 0..self.passes {
            let part = Part { bucket, of: self.passes };
            let deletes = DeleteIndex::read(&self.table, &self.plan, &self.key, column, part, None)?;
            let scan = Scan {
                table: self.table.clone(),
                columns: self.columns.clone(),
                key: self.key.clone(),
                part,
                deletes: Arc::new(deletes),
                asked: None,
                except: Some(Arc::clone(&self.except)),
            };
            for file in &self.plan.data {
                let mut result = Ok(());
                scan.file(file, |batch| {
                    result = work(batch);
                    result.is_ok()
                })?;
                result?;
            }
        }
        tracing::debug!(
            table = %self.table, files = self.plan.data.len(), passes = self.passes, except = self.except.len(),
            "rows that were there before a TRUNCATE stay as deleted ones"
        );
        Ok(())
    }
}

//! A written file as a manifest describes it: sizes, counts and bounds of its columns.

use std::collections::HashMap;

use arrow_schema::{Field, SchemaRef as ArrowSchemaRef};
use calve_core::{Error, ErrorKind, Result};
use iceberg::spec::{DataContentType, DataFile, DataFileBuilder, DataFileFormat, Struct};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;

use super::bounds::ColumnBounds;
use crate::delta::TableLayout;
use crate::schema::leaves;

/// Columns described, beside those of the key. The manifests of a table of 500 columns stay readable, as those of
/// Iceberg's own writers do (`write.metadata.metrics.max-inferred-column-defaults`).
const DESCRIBED_COLUMNS: usize = 100;

/// What is known of a file when it was written.
pub(crate) struct FileFacts<'a> {
    pub(crate) location: String,
    pub(crate) bytes: u64,
    pub(crate) content: DataContentType,
    pub(crate) arrow: &'a ArrowSchemaRef,
    pub(crate) groups: &'a [RowGroupMetaData],
    /// One for each column.
    pub(crate) nan_counts: &'a [u64],
    /// The partition spec, and the partition of all that is in it.
    pub(crate) spec_id: i32,
    pub(crate) partition: Struct,
    /// The order that its rows stand in, where it is one that the table has.
    pub(crate) sort_order: Option<i32>,
}

/// Describes the file.
pub(crate) fn describe(layout: &TableLayout, facts: FileFacts<'_>) -> Result<DataFile> {
    let bug = |what: &str| Error::new(ErrorKind::Bug, format!("table {}: {what}", layout.table));
    let (mut sizes, mut values, mut nulls, mut nans) = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
    let (mut lower_bounds, mut upper_bounds) = (HashMap::new(), HashMap::new());
    let mut next_leaf = 0;
    for (index, field) in facts.arrow.fields().iter().enumerate() {
        let (leaf, parts) = (next_leaf, leaves(field.data_type()));
        next_leaf += parts.len().max(1);
        let id = field_id(field).ok_or_else(|| bug("a column is written without its field id"))?;
        let in_key = layout.key_ids.contains(&id);
        if index >= DESCRIBED_COLUMNS && !in_key {
            continue;
        }
        if !parts.is_empty() {
            // Parquet counts levels there, not values, and Iceberg knows no bounds of them.
            for (leaf, part) in (leaf..).zip(&parts) {
                let id = field_id(part).ok_or_else(|| bug("an element is written without its field id"))?;
                let chunks = facts.groups.iter().filter_map(|group| group.columns().get(leaf));
                sizes.insert(id, chunks.map(|chunk| unsigned(chunk.compressed_size())).sum());
            }
            continue;
        }
        let ty = layout.schema.field_by_id(id).and_then(|field| field.field_type.as_primitive_type());
        let ty = ty.ok_or_else(|| bug("a column is written that its schema does not have"))?;
        let mut bounds = ColumnBounds::new(ty.clone(), in_key);
        let (mut size, mut count, mut null_count) = (0, 0, Some(0));
        for group in facts.groups {
            let chunk = group.columns().get(leaf).ok_or_else(|| bug("a row group lacks a column"))?;
            let cells = unsigned(chunk.num_values());
            size += unsigned(chunk.compressed_size());
            count += cells;
            let chunk_nulls = chunk.statistics().and_then(Statistics::null_count_opt);
            null_count = null_count.zip(chunk_nulls).map(|(a, b)| a + b);
            bounds.add(chunk.statistics(), cells);
        }
        sizes.insert(id, size);
        values.insert(id, count);
        nulls.extend(null_count.map(|count| (id, count)));
        if field.data_type().is_floating() {
            nans.extend(facts.nan_counts.get(index).map(|count| (id, *count)));
        }
        let (lower, upper) = bounds.finish();
        lower_bounds.extend(lower.map(|bound| (id, bound)));
        upper_bounds.extend(upper.map(|bound| (id, bound)));
    }
    let mut file = DataFileBuilder::default();
    file.content(facts.content)
        .file_path(facts.location)
        .file_format(DataFileFormat::Parquet)
        .partition(facts.partition)
        .partition_spec_id(facts.spec_id)
        .record_count(facts.groups.iter().map(|group| unsigned(group.num_rows())).sum())
        .file_size_in_bytes(facts.bytes)
        .column_sizes(sizes)
        .value_counts(values)
        .null_value_counts(nulls)
        .nan_value_counts(nans)
        .lower_bounds(lower_bounds)
        .upper_bounds(upper_bounds)
        .split_offsets(facts.groups.iter().map(RowGroupMetaData::file_offset).collect());
    if facts.content == DataContentType::EqualityDeletes {
        file.equality_ids(Some(layout.key_ids.clone()));
    }
    if let Some(order) = facts.sort_order {
        file.sort_order_id(order);
    }
    file.build().map_err(|error| bug(&format!("a written file lacks something a manifest must tell: {error}")))
}

/// The field id that a column is written under.
pub(crate) fn field_id(field: &Field) -> Option<i32> {
    field.metadata().get(PARQUET_FIELD_ID_META_KEY)?.parse().ok()
}

/// Parquet counts in signed numbers that are never negative.
fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

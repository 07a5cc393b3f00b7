//! The partition spec, the sort order and the file properties that a table has: what the configuration wants, what a load gives
//! the table, and what somebody else made of it.
//!
//! A table is made with a spec of no fields, which stays, and under which deletes are written that must reach every partition. The
//! spec wanted becomes the table's when it is made, and another one when it is read again: then nothing written under the one
//! before is left in it.

use std::collections::BTreeMap;

use calve_core::{Column, Error, ErrorKind, Layout, Result, StopReason, TableName, TableSchema};
use iceberg::TableUpdate;
use iceberg::spec::{
    NullOrder, PartitionSpecRef, Schema, SortDirection, SortField, SortOrder, TableMetadata, TableMetadataBuilder,
    Transform, UnboundPartitionField, UnboundPartitionSpec,
};
use serde::{Deserialize, Serialize};

use crate::error::iceberg_bug;
use crate::settings::Target;
use crate::stamp;

/// Turned on for each column that is to have one; others obey it too.
pub(crate) const BLOOM_FILTER: &str = "write.parquet.bloom-filter-enabled.column.";

/// What a load gives the table, where it has it not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StagedPlacement {
    /// Without ids of its fields.
    pub(crate) spec: UnboundPartitionSpec,
    pub(crate) sort: SortOrder,
    pub(crate) properties: BTreeMap<String, String>,
    /// Properties that go.
    pub(crate) removed: Vec<String>,
    /// The spec that it takes the place of.
    pub(crate) over: i32,
}

impl StagedPlacement {
    /// What `target` wants of a table whose rows `source` describes and which has the fields of `schema`.
    pub(crate) fn wanted(
        target: &Target,
        source: &TableSchema,
        schema: &Schema,
        metadata: &TableMetadata,
    ) -> Result<Self> {
        let lake = source.in_lake();
        let id = |name: &str| {
            let found = schema.as_struct().fields().iter().find(|field| field.name == name).map(|field| field.id);
            found.ok_or_else(|| absent(&source.table, &target.layout, &lake.columns, name))
        };
        let mut spec = UnboundPartitionSpec::builder();
        let mut names: Vec<String> = Vec::new();
        for by in &target.layout.partition {
            let name = partition_name(&by.column, by.transform, &names, schema);
            let field = UnboundPartitionField::builder()
                .source_id(id(&by.column)?)
                .name(name.clone())
                .transform(of_iceberg(by.transform))
                .build();
            names.push(name);
            spec = spec
                .add_partition_fields([field])
                .map_err(|e| impossible(&source.table, &target.layout, e.message()))?;
        }
        let sort = target.layout.sort.iter().map(|by| {
            Ok(SortField {
                source_id: id(&by.column)?,
                transform: Transform::Identity,
                direction: if by.descending { SortDirection::Descending } else { SortDirection::Ascending },
                null_order: if by.nulls_first { NullOrder::First } else { NullOrder::Last },
            })
        });
        let fields = sort.collect::<Result<Vec<_>>>()?;
        let order_id = i64::from(!fields.is_empty());
        let mut properties: BTreeMap<String, String> = target.properties.clone().into_iter().collect();
        let filtered = target.layout.filtered(source).into_iter();
        properties.extend(filtered.map(|column| (format!("{BLOOM_FILTER}{column}"), "true".to_owned())));
        let stale = |key: &&String| key.starts_with(BLOOM_FILTER) && !properties.contains_key(*key);
        let removed = metadata.properties().keys().filter(stale).cloned().collect();
        properties.retain(|key, value| metadata.properties().get(key) != Some(value));
        Ok(Self {
            spec: spec.build(),
            sort: SortOrder { order_id, fields },
            properties,
            removed,
            over: metadata.default_partition_spec_id(),
        })
    }

    /// Whether the table has the spec and the order, by whatever names.
    pub(crate) fn is_placed(&self, metadata: &TableMetadata) -> bool {
        let present = metadata.default_partition_spec().fields().iter().map(|by| (by.source_id, by.transform));
        let wanted = self.spec.fields().iter().map(|by| (by.source_id, by.transform));
        present.eq(wanted) && metadata.default_sort_order().fields == self.sort.fields
    }

    /// Whether the table has all of it.
    pub(crate) fn is_present(&self, metadata: &TableMetadata) -> bool {
        let properties = metadata.properties();
        self.is_placed(metadata)
            && self.properties.iter().all(|(key, value)| properties.get(key) == Some(value))
            && self.removed.iter().all(|key| !properties.contains_key(key))
    }

    fn apply(
        &self,
        before: &TableMetadata,
        mut builder: TableMetadataBuilder,
    ) -> iceberg::Result<TableMetadataBuilder> {
        if !before.partition_specs_iter().any(|spec| spec.fields().is_empty()) {
            // Somebody's clean-up removed it.
            builder = builder.add_partition_spec(UnboundPartitionSpec::builder().build())?;
        }
        if !self.is_placed(before) {
            builder = builder.add_default_partition_spec(self.spec.clone())?;
            builder = builder.add_sort_order(self.sort.clone())?.set_default_sort_order(-1)?;
        }
        let properties = self.properties.clone().into_iter().collect();
        builder.set_properties(properties)?.remove_properties(&self.removed)
    }
}

/// The table as it is once it has this schema and this placement, and the updates that make it so.
pub(crate) fn moved(
    table: &TableName,
    metadata: &TableMetadata,
    schema: Option<Schema>,
    placement: Option<&StagedPlacement>,
) -> Result<(TableMetadata, Vec<TableUpdate>)> {
    if schema.is_none() && placement.is_none() {
        return Ok((metadata.clone(), Vec::new()));
    }
    let result = || {
        let mut builder = metadata.clone().into_builder(None);
        if let Some(schema) = schema {
            builder = builder.add_current_schema(schema)?;
        }
        if let Some(placement) = placement {
            builder = placement.apply(metadata, builder)?;
        }
        builder.build()
    };
    let built = result()
        .map_err(|e| iceberg_bug(format!("table {table}: its schema in the lake cannot become the source's"), e))?;
    let (mut metadata, mut updates) = (built.metadata, built.changes);
    if placement.is_some() {
        // Which of the specs is ours is known once it has its number.
        let (key, value) = stamp::spec_property(metadata.default_partition_spec_id());
        if metadata.properties().get(&key) != Some(&value) {
            let ours = TableUpdate::SetProperties { updates: [(key, value)].into() };
            updates.push(ours.clone());
            metadata = ours
                .apply(metadata.into_builder(None))
                .and_then(TableMetadataBuilder::build)
                .map_err(|e| iceberg_bug(format!("table {table}: its partition spec cannot be recorded"), e))?
                .metadata;
        }
    }
    Ok((metadata, updates))
}

/// The spec under which deletes reach every partition.
pub(crate) fn of_all_partitions(metadata: &TableMetadata) -> Option<PartitionSpecRef> {
    metadata.partition_specs_iter().find(|spec| spec.fields().is_empty()).cloned()
}

/// The stop of a table whose deletes can reach every partition no more.
pub(crate) fn nothing_for_deletes(table: &TableName) -> StopReason {
    StopReason {
        state: "partition spec removed".into(),
        detail: "somebody removed the partition spec without fields from it in the lake, under which its deletes are written"
            .into(),
        remedy: format!("run `calve reload {table}` to read it again"),
    }
}

/// Refuses a table whose default spec is not the one that calve gave it: deletes might not reach what is written under another.
pub(crate) fn check_spec(table: &TableName, metadata: &TableMetadata) -> Result<()> {
    let (present, ours) = (metadata.default_partition_spec_id(), stamp::spec_of(table, metadata.properties())?);
    if present == ours {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Config,
        format!(
            "table {table}: somebody gave it partition spec {present} in the lake, and calve writes it under spec {ours}; take that \
             change back (Spark: ALTER TABLE ... DROP PARTITION FIELD ..., ADD PARTITION FIELD ...) and start again; which \
             partitions calve makes is the option 'partition' of the table"
        ),
    ))
}

/// Columns that partitions or the sort order are by, which therefore stay in the table's schema.
pub(crate) fn held_columns(metadata: &TableMetadata) -> Vec<i32> {
    let partitions = metadata.default_partition_spec().fields().iter().map(|by| by.source_id);
    partitions.chain(metadata.default_sort_order().fields.iter().map(|by| by.source_id)).collect()
}

/// Why the table cannot have columns of these names: Iceberg wants those of partition fields to be no new column's.
pub(crate) fn taken_name(metadata: &TableMetadata, columns: &[Column]) -> Option<String> {
    let specs = metadata.partition_specs_iter().flat_map(|spec| spec.fields());
    let is_new = |name: &str| metadata.schemas_iter().all(|schema| schema.field_by_name(name).is_none());
    let comes = |name: &&str| columns.iter().any(|column| column.name == **name) && is_new(name);
    let taken = specs.map(|by| by.name.as_str()).find(comes)?;
    Some(format!("column \"{taken}\" came to it, which is the name of a partition field of its table in the lake"))
}

/// The name of a partition field: as Spark makes it, in the characters that every reader takes, and no column's.
fn partition_name(column: &str, transform: calve_core::Transform, taken: &[String], schema: &Schema) -> String {
    use calve_core::Transform as T;
    let plain: String = column.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let start = if plain.starts_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
    let end = match transform {
        T::Identity => "identity",
        T::Bucket(_) => "bucket",
        T::Truncate(_) => "trunc",
        T::Year => "year",
        T::Month => "month",
        T::Day => "day",
        T::Hour => "hour",
    };
    let name = format!("{start}{plain}_{end}");
    let is_free = |name: &String| !taken.contains(name) && schema.field_by_name(name).is_none();
    // One of so many is free, since there are fewer others.
    let others = taken.len() + schema.as_struct().fields().len();
    let numbered = (2..others + 3).map(|number| format!("{name}_{number}"));
    std::iter::once(name.clone()).chain(numbered).find(is_free).unwrap_or(name)
}

fn of_iceberg(transform: calve_core::Transform) -> Transform {
    use calve_core::Transform as T;
    match transform {
        T::Identity => Transform::Identity,
        T::Bucket(number) => Transform::Bucket(number),
        T::Truncate(width) => Transform::Truncate(width),
        T::Year => Transform::Year,
        T::Month => Transform::Month,
        T::Day => Transform::Day,
        T::Hour => Transform::Hour,
    }
}

fn absent(table: &TableName, layout: &Layout, columns: &[Column], name: &str) -> Error {
    let known: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let what = format!("it has no column \"{name}\", only {}", known.join(", "));
    impossible(table, layout, &what)
}

fn impossible(table: &TableName, layout: &Layout, why: &str) -> Error {
    let partition: Vec<String> = layout.partition.iter().map(ToString::to_string).collect();
    let sort: Vec<String> = layout.sort.iter().map(ToString::to_string).collect();
    Error::new(
        ErrorKind::Config,
        format!(
            "table {table} cannot be laid out by partition [{}] and sort [{}]: {why}; correct these options of the table",
            partition.join(", "),
            sort.join(", ")
        ),
    )
}

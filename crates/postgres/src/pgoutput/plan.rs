//! What is done with the rows of one relation: which table they belong to, whether they still have the shape expected, and
//! how each cell is decoded.

use std::sync::Arc;

use calve_core::{CellRule, SchemaChange, StopReason, TableIndex, TableName, TableSchema, ValueRules};

use super::message::{Malformed, Relation};
use super::reshape::reshape;
use crate::attributes::Attribute;
use crate::column_kind::ColumnKind;

/// How rows of one schema are decoded.
#[derive(Debug)]
pub(super) struct RowPlan {
    pub(super) schema: Arc<TableSchema>,
    pub(super) columns: Vec<ColumnPlan>,
}

/// How the cells of one column are decoded.
#[derive(Clone, Debug)]
pub(super) struct ColumnPlan {
    pub(super) kind: ColumnKind,
    /// Its place in the key.
    pub(super) key: Option<usize>,
    /// Its place among the columns that are kept of a row before.
    pub(super) old: Option<usize>,
    pub(super) nullable: bool,
    pub(super) rule: CellRule,
    /// Nothing of it is decoded.
    pub(super) left_out: bool,
}

impl RowPlan {
    pub(super) fn new(schema: Arc<TableSchema>, rules: &ValueRules) -> Self {
        let old = schema.old_columns();
        let plan = |(index, (column, rule))| ColumnPlan {
            kind: ColumnKind::plan(column),
            key: schema.key.iter().position(|key| *key == index),
            old: old.iter().position(|old| *old == index),
            nullable: column.nullable,
            rule,
            left_out: column.usage.is_left_out(),
        };
        let columns = schema.columns.iter().zip(rules.cells(&schema)).enumerate().map(plan).collect();
        Self { schema, columns }
    }
}

/// A relation as the stream described it last.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) oid: u32,
    /// The followed table whose rows these are; None: nobody wants them.
    pub(super) table: Option<TableIndex>,
    described: Described,
    rules: ValueRules,
    /// The plan for the schema that the table's rows have now, or why the relation's rows no longer have it.
    pub(super) plan: Result<RowPlan, (Arc<TableSchema>, Mismatch)>,
}

/// Rows have not the schema of the table's rows so far.
#[derive(Clone, Debug)]
pub(super) enum Mismatch {
    /// They have this one from here on.
    Changed(SchemaChange),
    /// Nothing leads from the one to the other.
    Stop(StopReason),
}

/// The relation's description, kept for the time when a buffer of another schema comes.
#[derive(Debug)]
struct Described {
    oid: u32,
    shape: Shape,
    /// The catalog's columns when the description came; none where it was not asked.
    attributes: Arc<[Attribute]>,
}

/// What the log says of a relation.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) name: TableName,
    pub(super) has_identity: bool,
    /// Whether `is_key` of the columns says anything.
    pub(super) key_known: bool,
    pub(super) columns: Vec<ShapeColumn>,
}

#[derive(Debug)]
pub(super) struct ShapeColumn {
    pub(super) name: String,
    pub(super) type_oid: u32,
    pub(super) modifier: i32,
    pub(super) is_key: bool,
}

impl Known {
    /// `schema` is the one that rows of `table` have so far; `primary_key` names the columns of the relation's primary key,
    /// and `attributes` are its columns in the catalog, where they were looked up.
    pub(super) fn new(
        relation: &Relation<'_>,
        table: Option<TableIndex>,
        schema: &Arc<TableSchema>,
        primary_key: Option<&[String]>,
        attributes: Arc<[Attribute]>,
        rules: &ValueRules,
    ) -> Result<Self, Malformed> {
        // pgoutput writes an empty schema name for pg_catalog.
        let namespace = if relation.schema.is_empty() { "pg_catalog" } else { relation.schema };
        let columns = relation.columns()?.into_iter().map(|column| ShapeColumn {
            name: column.name.to_owned(),
            type_oid: column.type_oid,
            modifier: column.modifier,
            // Under FULL every column is marked; what identifies the row there is the primary key.
            is_key: match primary_key {
                Some(key) if relation.replica_identity == b'f' => key.iter().any(|name| name == column.name),
                _ => column.is_key,
            },
        });
        let shape = Shape {
            name: TableName::new(namespace, relation.name),
            has_identity: relation.replica_identity != b'n',
            key_known: relation.replica_identity != b'f' || primary_key.is_some(),
            columns: columns.collect(),
        };
        let described = Described { oid: relation.oid, shape, attributes };
        let plan = plan(&described, schema, rules);
        Ok(Self { oid: relation.oid, table, described, rules: rules.clone(), plan })
    }

    /// Makes sure that the plan is for rows of this schema.
    pub(super) fn fit(&mut self, schema: &Arc<TableSchema>) {
        let planned = match &self.plan {
            Ok(plan) => &plan.schema,
            Err((schema, _)) => schema,
        };
        if !Arc::ptr_eq(planned, schema) {
            self.plan = plan(&self.described, schema, &self.rules);
        }
    }
}

fn plan(
    known: &Described,
    schema: &Arc<TableSchema>,
    rules: &ValueRules,
) -> Result<RowPlan, (Arc<TableSchema>, Mismatch)> {
    let stop = |detail| (Arc::clone(schema), Mismatch::Stop(StopReason::schema_changed(&schema.table, detail)));
    if let Some(detail) = other_table(known, schema) {
        return Err(stop(detail));
    }
    let of_table = rules.table(&schema.table);
    match reshape(schema, &known.shape, &known.attributes, &of_table) {
        Err(detail) => Err(stop(detail)),
        Ok(Some(change)) => match identity_difference(&known.shape, &change.schema) {
            Some(detail) => Err(stop(detail)),
            None => Err((Arc::clone(schema), Mismatch::Changed(change))),
        },
        Ok(None) => match identity_difference(&known.shape, schema) {
            Some(detail) => Err(stop(detail)),
            None => Ok(RowPlan::new(Arc::clone(schema), rules)),
        },
    }
}

/// Why the relation is not the table that it was.
fn other_table(known: &Described, schema: &TableSchema) -> Option<String> {
    if known.shape.name != schema.table {
        return Some(format!("the table was renamed to {}", known.shape.name));
    }
    (known.oid != schema.native_id).then(|| {
        format!("the table was dropped and created again (its oid is {}, it was {})", known.oid, schema.native_id)
    })
}

fn identity_difference(shape: &Shape, schema: &TableSchema) -> Option<String> {
    if !shape.has_identity {
        return Some("it has no replica identity any more (REPLICA IDENTITY NOTHING)".to_owned());
    }
    if !shape.key_known {
        return None;
    }
    let mut now: Vec<_> = shape.columns.iter().filter(|c| c.is_key).map(|c| c.name.as_str()).collect();
    let mut before: Vec<_> = schema.key_columns().map(|c| c.name.as_str()).collect();
    now.sort_unstable();
    before.sort_unstable();
    (now != before).then(|| {
        format!("the columns that identify its rows changed from ({}) to ({})", before.join(", "), now.join(", "))
    })
}

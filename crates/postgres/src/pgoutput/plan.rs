//! What is done with the rows of one relation: which table they belong to, whether they still have the shape expected, and
//! how each cell is decoded.

use std::sync::Arc;

use calve_core::{StopReason, TableIndex, TableName, TableSchema};

use super::message::{Malformed, Relation};
use crate::cell::CellKind;

/// How rows of one schema are decoded.
#[derive(Debug)]
pub(super) struct RowPlan {
    pub(super) schema: Arc<TableSchema>,
    pub(super) columns: Vec<ColumnPlan>,
}

/// How the cells of one column are decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnPlan {
    pub(super) kind: CellKind,
    /// Its place in the key.
    pub(super) key: Option<usize>,
    pub(super) nullable: bool,
}

impl RowPlan {
    pub(super) fn new(schema: Arc<TableSchema>) -> Self {
        let plan = |(index, column)| ColumnPlan {
            kind: CellKind::plan(column),
            key: schema.key.iter().position(|key| *key == index),
            nullable: column.nullable,
        };
        let columns = schema.columns.iter().enumerate().map(plan).collect();
        Self { schema, columns }
    }
}

/// A relation as the stream described it last.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) oid: u32,
    /// The followed table whose rows these are; None: nobody wants them.
    pub(super) table: Option<TableIndex>,
    shape: Shape,
    /// The plan for the schema that the table's rows have now, or why the relation's rows no longer have it.
    pub(super) plan: Result<RowPlan, (Arc<TableSchema>, StopReason)>,
}

/// The relation's description, kept for the time when a buffer of another schema comes.
#[derive(Debug)]
struct Shape {
    name: TableName,
    has_identity: bool,
    /// Whether `is_key` of the columns says anything.
    key_known: bool,
    columns: Vec<ShapeColumn>,
}

#[derive(Debug)]
struct ShapeColumn {
    name: String,
    type_oid: u32,
    modifier: i32,
    is_key: bool,
}

impl Known {
    /// `schema` is the one that rows of `table` have so far; `primary_key` names the columns of the relation's primary key,
    /// where they were looked up.
    pub(super) fn new(
        relation: &Relation<'_>,
        table: Option<TableIndex>,
        schema: &Arc<TableSchema>,
        primary_key: Option<&[String]>,
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
        let plan = plan(relation.oid, &shape, schema);
        Ok(Self { oid: relation.oid, table, shape, plan })
    }

    /// Makes sure that the plan is for rows of this schema.
    pub(super) fn fit(&mut self, schema: &Arc<TableSchema>) {
        let planned = match &self.plan {
            Ok(plan) => &plan.schema,
            Err((schema, _)) => schema,
        };
        if !Arc::ptr_eq(planned, schema) {
            self.plan = plan(self.oid, &self.shape, schema);
        }
    }
}

fn plan(oid: u32, shape: &Shape, schema: &Arc<TableSchema>) -> Result<RowPlan, (Arc<TableSchema>, StopReason)> {
    match difference(oid, shape, schema) {
        None => Ok(RowPlan::new(Arc::clone(schema))),
        Some(detail) => Err((Arc::clone(schema), schema_changed(&schema.table, detail))),
    }
}

/// The stop of a table whose rows no longer have the shape of those in the lake.
pub(crate) fn schema_changed(table: &TableName, detail: String) -> StopReason {
    StopReason {
        state: StopReason::SCHEMA_CHANGED.into(),
        detail,
        remedy: format!("run `calve reload {table}` to read it again in its new shape"),
    }
}

/// What a relation has that its table has not, or the other way round.
///
/// The order of columns counts as well: a column dropped and added again under the same name comes last, and its old values
/// are gone without a row in the log.
fn difference(oid: u32, shape: &Shape, schema: &TableSchema) -> Option<String> {
    if shape.name != schema.table {
        return Some(format!("the table was renamed to {}", shape.name));
    }
    if oid != schema.native_id {
        return Some(format!(
            "the table was dropped and created again (its oid is {oid}, it was {})",
            schema.native_id
        ));
    }
    let had = |name: &str| schema.columns.iter().find(|column| column.name == name);
    let has = |name: &str| shape.columns.iter().any(|column| column.name == name);
    let added: Vec<_> = shape.columns.iter().filter(|c| had(&c.name).is_none()).map(|c| c.name.as_str()).collect();
    let dropped: Vec<_> = schema.columns.iter().filter(|c| !has(&c.name)).map(|c| c.name.as_str()).collect();
    match (&added[..], &dropped[..]) {
        ([], []) => {}
        ([], dropped) => return Some(format!("column {} was dropped", dropped.join(", "))),
        (added, []) => return Some(format!("column {} was added", added.join(", "))),
        (added, dropped) => {
            return Some(format!(
                "column {} was renamed to, or dropped and replaced by, {}",
                dropped.join(", "),
                added.join(", ")
            ));
        }
    }
    for (now, before) in shape.columns.iter().zip(&schema.columns) {
        if now.name != before.name {
            return Some(format!("column {} was dropped and added again, or columns changed places", before.name));
        }
        if (now.type_oid, now.modifier) != (before.native.id, before.native.modifier) {
            return Some(format!("the type of column {} changed; it was {}", now.name, before.native.name));
        }
    }
    identity_difference(shape, schema)
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

//! The columns of a relation as the catalog has them now, those that were dropped included.
//!
//! A description in the log has names and types only. Who a column is, is its number (`attnum`), which it keeps when it is
//! renamed and which no other column gets after it was dropped.

use calve_core::{Column, ColumnType, ColumnUse, Result, TableName, TableRules, TableSchema, ValueRules};
use futures::{StreamExt, TryStreamExt, stream};
use tokio_postgres::{Client, Row};

use crate::catalog_type::{CatalogType, type_columns, type_joins};
use crate::column_kind::binary_safe;
use crate::error::sql_error;

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attribute {
    /// As it is now.
    pub(crate) column: Column,
    pub(crate) dropped: bool,
    /// Rows that were there when it was added may have a value in it: it has a default, or is NOT NULL, an identity or
    /// generated. A default that was set later looks the same.
    pub(crate) filled: bool,
    /// It is computed, and rows in the log do not have it.
    pub(crate) generated: bool,
}

/// Questions on the way at once.
const PIPELINED: usize = 32;

const ATTRIBUTES: &str = concat!(
    "SELECT a.attnum, a.attname::text, a.attnotnull, a.attisdropped, \
       a.attnotnull OR a.atthasdef OR a.atthasmissing OR a.attidentity::text <> '' OR a.attgenerated::text <> '', \
       a.attgenerated::text <> '', ",
    type_columns!(),
    " FROM pg_catalog.pg_attribute a ",
    type_joins!(),
    " WHERE a.attrelid = $1 AND a.attnum > 0 ORDER BY a.attnum"
);

/// Reads the columns of a relation; none where there is no such relation any more.
pub(crate) async fn read(client: &Client, oid: u32) -> Result<Vec<Attribute>> {
    let failed = |error: tokio_postgres::Error| sql_error("cannot look up the columns of a table", &error);
    let rows = client.query(ATTRIBUTES, &[&oid]).await.map_err(failed)?;
    rows.iter().map(|row| attribute(row).map_err(failed)).collect()
}

/// Tells in the log of columns that are kept as text.
pub(crate) async fn tell_of_texts(
    client: &Client,
    schemas: impl Iterator<Item = &TableSchema>,
    rules: &ValueRules,
) -> Result<()> {
    let asked: Vec<_> = schemas.map(|schema| kept_as_text(client, schema, rules.table(&schema.table))).collect();
    let mut kept = stream::iter(asked).buffered(PIPELINED);
    while let Some((table, columns)) = kept.try_next().await? {
        for (column, own) in columns {
            tracing::warn!(
                %table,
                column,
                "it is text in the lake, and becomes {own} when the table is read again (calve reload {table}); \
                 `type: string` in the configuration keeps it as it is"
            );
        }
    }
    Ok(())
}

/// Columns that the table in the lake has as text, though their type has one of its own by now, each with that: earlier versions
/// knew no lists, maps or geometries. Such a column stays as it is until the table is read again.
async fn kept_as_text(
    client: &Client,
    schema: &TableSchema,
    rules: TableRules,
) -> Result<(TableName, Vec<(String, ColumnType)>)> {
    let table = schema.table.clone();
    let kept = |column: &&Column| {
        let text = column.ty == ColumnType::String && !binary_safe(column) && column.usage.is_values();
        text && rules.column_type(&column.name).is_none() && !schema.key_columns().any(|key| key.id == column.id)
    };
    let kept: Vec<&Column> = schema.columns.iter().filter(kept).collect();
    if kept.is_empty() {
        return Ok((table, Vec::new()));
    }
    let now = read(client, schema.native_id).await?;
    let wider = |column: &&Column| {
        let now = now.iter().find(|now| !now.dropped && now.column.id == column.id)?;
        (now.column.ty != ColumnType::String).then(|| (column.name.clone(), now.column.ty.clone()))
    };
    Ok((table, kept.iter().filter_map(wider).collect()))
}

fn attribute(row: &Row) -> std::result::Result<Attribute, tokio_postgres::Error> {
    let (ty, native) = CatalogType::from_row(row, 6)?.into_types();
    let column = Column {
        id: u32::try_from(row.try_get::<_, i16>(0)?).unwrap_or(0),
        name: row.try_get(1)?,
        ty,
        nullable: !row.try_get::<_, bool>(2)?,
        native,
        usage: ColumnUse::Values,
    };
    Ok(Attribute { column, dropped: row.try_get(3)?, filled: row.try_get(4)?, generated: row.try_get(5)? })
}

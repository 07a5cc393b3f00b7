//! The columns of a relation as the catalog has them now, those that were dropped included.
//!
//! A description in the log has names and types only. Who a column is, is its number (`attnum`), which it keeps when it is
//! renamed and which no other column gets after it was dropped.

use calve_core::{Column, NativeType, Result};
use tokio_postgres::{Client, Row};

use crate::error::sql_error;
use crate::types::column_type;

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

const ATTRIBUTES: &str = "SELECT a.attnum, a.attname::text, a.atttypid, a.atttypmod, \
       pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, \
       COALESCE(base.oid, a.atttypid), COALESCE(base.modifier, a.atttypmod), a.attisdropped, \
       a.attnotnull OR a.atthasdef OR a.atthasmissing OR a.attidentity::text <> '' OR a.attgenerated::text <> '', \
       a.attgenerated::text <> '' \
  FROM pg_catalog.pg_attribute a LEFT JOIN LATERAL ( \
       WITH RECURSIVE step (oid, modifier, depth) AS ( \
           SELECT a.atttypid, a.atttypmod, 0 \
            UNION ALL \
           SELECT t.typbasetype, t.typtypmod, step.depth + 1 \
             FROM step JOIN pg_catalog.pg_type t ON t.oid = step.oid AND t.typtype = 'd') \
       SELECT oid, modifier FROM step ORDER BY depth DESC LIMIT 1) base ON true \
 WHERE a.attrelid = $1 AND a.attnum > 0 ORDER BY a.attnum";

/// Reads the columns of a relation; none where there is no such relation any more.
pub(crate) async fn read(client: &Client, oid: u32) -> Result<Vec<Attribute>> {
    let failed = |error: tokio_postgres::Error| sql_error("cannot look up the columns of a table", &error);
    let rows = client.query(ATTRIBUTES, &[&oid]).await.map_err(failed)?;
    rows.iter().map(|row| attribute(row).map_err(failed)).collect()
}

fn attribute(row: &Row) -> std::result::Result<Attribute, tokio_postgres::Error> {
    let column = Column {
        id: u32::try_from(row.try_get::<_, i16>(0)?).unwrap_or(0),
        name: row.try_get(1)?,
        ty: column_type(row.try_get(6)?, row.try_get(7)?),
        nullable: !row.try_get::<_, bool>(5)?,
        native: NativeType::new(row.try_get(2)?, row.try_get(3)?, row.try_get::<_, String>(4)?),
    };
    Ok(Attribute { column, dropped: row.try_get(8)?, filled: row.try_get(9)?, generated: row.try_get(10)? })
}

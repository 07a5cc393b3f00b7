//! What a source holds, looked at from outside: for table patterns.

use std::collections::BTreeSet;

use calve_core::{Result, TableName};
use mysql_async::prelude::Queryable;

use crate::config::ConnectConfig;
use crate::connection;
use crate::describe::SYSTEM_SCHEMAS;
use crate::error::sql_error;

/// Every table that could be replicated: base tables outside the system's databases. Of those `named`, whatever has the name:
/// `check` says why it cannot be replicated. In order of name.
pub async fn list_tables(connect: &ConnectConfig, named: &[TableName]) -> Result<Vec<TableName>> {
    let mut conn = connection::open(connect).await?;
    let system = SYSTEM_SCHEMAS.map(|schema| format!("'{schema}'")).join(", ");
    let sql = format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN ({system}) \
           FROM information_schema.TABLES"
    );
    let failed = |error: mysql_async::Error| sql_error("cannot list the tables of the server", &error);
    let rows: Vec<(String, String, bool)> = conn.query(sql).await.map_err(failed)?;
    // Ended here, so that the next one is not counted beside it.
    conn.disconnect().await.map_err(failed)?;
    let named: BTreeSet<&TableName> = named.iter().collect();
    let tables = rows.into_iter().map(|(schema, name, plain)| (TableName { schema, name }, plain));
    let tables: BTreeSet<TableName> =
        tables.filter(|(table, plain)| *plain || named.contains(table)).map(|(table, _)| table).collect();
    Ok(tables.into_iter().collect())
}

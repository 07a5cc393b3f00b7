//! `calve check`: every precondition that is not met, all at once, each with the statement or setting that mends it.
//!
//! It only looks: nothing is created or changed. A user without rights gets findings, not errors; an error here means that
//! the server cannot be asked at all.

mod merged;
mod rights;
mod server;
mod tables;
#[cfg(all(test, feature = "servers"))]
mod tests;

use calve_core::{Finding, Result, TableName};

use crate::connection;
use crate::describe::catalog;
use crate::server::Server;
use crate::settings::MySqlSettings;

/// What keeps this pipeline from replicating these tables, or will trouble it later. Errors first.
pub async fn check(settings: &MySqlSettings, tables: &[TableName]) -> Result<Vec<Finding>> {
    let mut conn = connection::open(&settings.connect).await?;
    let server = Server { conversions: settings.conversions.clone(), ..Server::read(&mut conn).await? };
    if let Some(too_old) = server::too_old(&server) {
        return Ok(vec![too_old]);
    }
    let mut second = connection::open(&settings.connect).await?;
    let (tables, mut findings) = merged::check(&mut conn, &server, tables).await?;
    let tables = tables.as_slice();
    findings.extend(server::check(&mut conn, &mut second, &server, settings, tables).await?);
    let mut found = Vec::new();
    for table in tables {
        found.push(catalog::read(&mut conn, table).await?);
    }
    findings.extend(tables::check(&mut conn, &server, tables, &found).await?);
    let locked = found.iter().flatten().filter(|table| table.has_no_key());
    let locked = locked.filter(|found| server.conversions.rules.table(&found.table).mode.is_append());
    let locked: Vec<TableName> = locked.map(|found| found.table.clone()).collect();
    findings.extend(rights::check(&mut conn, &server, tables, &locked).await?);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for conn in [conn, second] {
        // What was found does not depend on it.
        let _ = conn.disconnect().await;
    }
    Ok(findings)
}

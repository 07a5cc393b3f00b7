//! Merged tables: what they are made of, and what is wrong with that.

use calve_core::{Finding, Result, TableName};
use mysql_async::Conn;

use crate::merge;
use crate::server::Server;

/// What is wrong with merged tables, and the tables of the source: members in place of those that they make.
pub(super) async fn check(
    conn: &mut Conn,
    server: &Server,
    tables: &[TableName],
) -> Result<(Vec<TableName>, Vec<Finding>)> {
    let (mut of_source, mut findings) = (Vec::with_capacity(tables.len()), Vec::new());
    for table in tables {
        let Some(merge) = server.conversions.merges.of(table) else {
            of_source.push(table.clone());
            continue;
        };
        let (_, found) = merge::describe(conn, server, merge).await?;
        findings.extend(merge::findings(server, merge, &found));
        of_source.extend(found.into_iter().map(|member| member.table));
    }
    Ok((of_source, findings))
}

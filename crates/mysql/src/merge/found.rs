//! The members of a merged table as the catalog has them now.

use std::sync::Arc;

use calve_core::{
    ColumnSelection, ColumnUse, Error, ErrorKind, Finding, MemberShape, Result, Severity, TableName, TableSchema,
};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use super::{Merge, empty, named, with_member};
use crate::describe::catalog::{self, CatalogTable};
use crate::describe::{SYSTEM_SCHEMAS, missing};
use crate::error::sql_error;
use crate::server::Server;

/// The tables that are there and are its members, in order of name.
pub(crate) async fn members(conn: &mut Conn, merge: &Merge) -> Result<Vec<TableName>> {
    let system = SYSTEM_SCHEMAS.map(|schema| format!("'{schema}'")).join(", ");
    let sql = format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES \
          WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN ({system})"
    );
    let rows: Vec<(String, String)> =
        conn.query(sql).await.map_err(|error| sql_error("cannot list the tables of the server", &error))?;
    let tables = rows.into_iter().map(|(schema, name)| TableName { schema, name });
    let mut members: Vec<TableName> = tables.filter(|table| merge.origin_of(table).is_some()).collect();
    members.sort();
    Ok(members)
}

/// The merged table as it is now, and its members.
pub(crate) async fn describe(
    conn: &mut Conn,
    server: &Server,
    merge: &Merge,
) -> Result<(std::result::Result<Arc<TableSchema>, Finding>, Vec<CatalogTable>)> {
    let mut found = Vec::new();
    for member in members(conn, merge).await? {
        match catalog::read(conn, &member).await? {
            Some(table) => found.push(table),
            // It was there a moment ago.
            None => return Err(Error::new(ErrorKind::Retry, missing(&member).to_string())),
        }
    }
    Ok((schema(server, merge, &found), found))
}

/// Its schema, if every rule holds.
fn schema(server: &Server, merge: &Merge, found: &[CatalogTable]) -> std::result::Result<Arc<TableSchema>, Finding> {
    let (schema, findings) = merged(server, merge, found);
    match findings.into_iter().find(|finding| finding.severity == Severity::Error) {
        Some(broken) => Err(broken),
        None => Ok(Arc::new(schema)),
    }
}

/// Everything that is wrong with a merged table, beside what is wrong with members by themselves.
pub(crate) fn findings(server: &Server, merge: &Merge, found: &[CatalogTable]) -> Vec<Finding> {
    let (schema, mut findings) = merged(server, merge, found);
    findings.retain(|finding| finding.severity == Severity::Error);
    if findings.is_empty() {
        findings.extend(server.conversions.rules.layout_findings(&schema));
        findings.dedup();
    }
    findings
}

/// The schema as far as it goes, and what is wrong.
fn merged(server: &Server, merge: &Merge, found: &[CatalogTable]) -> (TableSchema, Vec<Finding>) {
    let rules = server.conversions.rules.table(&merge.table);
    let by_itself = of_members(server);
    let mut merged = empty(merge, rules.mode);
    let mut findings = Vec::new();
    if found.is_empty() {
        findings.push(Finding::error(
            format!("no table of the source matches '{}', so that {} has no members", merge.pattern, merge.table),
            "check the pattern, and that the user may see the tables",
        ));
    }
    for member in found {
        let broken = member.findings(&by_itself).into_iter().find(|finding| finding.severity == Severity::Error);
        let schema = broken.map_or_else(|| member.schema(&by_itself), Err);
        let TableSchema { character_set, columns, key, .. } = match schema {
            Ok(schema) => Arc::unwrap_or_clone(schema),
            Err(finding) => {
                findings.push(finding);
                continue;
            }
        };
        let shape = MemberShape { character_set, columns, key, lost: Vec::new(), guessed_character_set: false };
        match with_member(&merged, &member.table, shape) {
            Ok(next) => merged = next,
            Err(what) => findings.push(Finding::error(
                format!("the members of {} cannot become one table: {what}", merge.table),
                "make them alike, exclude the table, or give the column a type of its own in the configuration (columns, type)",
            )),
        }
    }
    merged = rules.applied(merged);
    if let (Some(origin), ColumnSelection::Only(_)) = (merged.columns.first_mut(), &rules.selection) {
        // Who lists columns lists those of the source.
        origin.usage = ColumnUse::Values;
    }
    for column in &merge.without {
        if let Some(column) = merged.columns.iter_mut().find(|own| own.name == *column) {
            column.usage = ColumnUse::LeftOut;
        }
    }
    if findings.is_empty() {
        let others: Vec<&str> =
            found.iter().flat_map(|member| &member.columns).map(|column| column.name.as_str()).collect();
        let columns: Vec<(&str, bool)> = merged
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| (column.name.as_str(), merged.key.contains(&at)))
            .chain(others.iter().filter(|name| named(&merged.columns, name).is_none()).map(|name| (*name, false)))
            .collect();
        findings.extend(rules.findings(&merge.table, &columns));
        findings.extend(rules.excerpt_findings(&merged, &others));
        findings.extend(server.conversions.rules.layout_errors(&merged));
    }
    (merged, findings)
}

/// The server as each member is read by itself.
pub(crate) fn of_members(server: &Server) -> Server {
    let mut server = server.clone();
    server.conversions.rules = server.conversions.rules.of_members();
    server
}

//! `calve check`: every precondition that is not met, all at once, each with the statement or setting that mends it.
//!
//! It only looks: nothing is created or changed. A user without rights gets findings, not errors; an error here means that
//! the server cannot be asked at all.

mod rights;
mod server;
mod tables;
#[cfg(all(test, feature = "servers"))]
mod tests;

use calve_core::{Error, ErrorKind, Result, TableName};

use crate::publication;
use crate::relation::Relation;
use crate::slot;
use crate::source::PostgresSettings;
use crate::transport::ReplicationConnection;
use calve_core::Finding;

/// What keeps this pipeline from replicating these tables, or will trouble it later. Errors first.
pub async fn check(settings: &PostgresSettings, tables: &[TableName]) -> Result<Vec<Finding>> {
    let client = settings.connect.connect_sql().await?;
    if let Some(too_old) = server::too_old(&client).await? {
        // Its catalog lacks what would be asked next.
        return Ok(vec![too_old]);
    }
    let mut findings = Vec::new();

    let role = rights::Role::read(&client).await?;
    match ReplicationConnection::open(&settings.connect).await {
        // Its place is free again before places are counted.
        Ok(connection) => connection.close().await,
        Err(error) => findings.push(role.cannot_replicate(&error)),
    }
    let slot = slot::status(&client, &settings.connect, &settings.slot).await;
    let publication = publication::standing(&client, &settings.publication, tables).await?;

    findings.extend(server::check(&client, settings, &role, &slot).await?);
    match slot {
        Ok(Some(status)) => findings.extend(status.check_usable(&settings.slot).err().as_ref().map(of_error)),
        Ok(None) => {}
        Err(error) => findings.push(of_configuration(error)?),
    }
    let relations: Vec<Relation> = Relation::read_all(&client, tables).await?.into_iter().flatten().collect();
    findings.extend(tables::check(&relations, tables, &settings.rules));
    findings.extend(rights::check(&client, settings, &role, publication, &relations).await?);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

/// An error as a finding. Errors here end with what to do, after the last colon or semicolon.
fn of_error(error: &Error) -> Finding {
    let text = error.to_string();
    let at = text.rfind("; ").or_else(|| text.rfind(": run ").or_else(|| text.rfind(": ")));
    match at.and_then(|at| text.split_at_checked(at)) {
        Some((what, remedy)) => Finding::error(what, remedy.trim_start_matches([';', ':', ' '])),
        None => Finding::error(text, "see the server's log"),
    }
}

/// A mistake of configuration is a finding; with anything else the check cannot go on.
fn of_configuration(error: Error) -> Result<Finding> {
    if error.kind() == ErrorKind::Config { Ok(of_error(&error)) } else { Err(error) }
}

//! The publication: which tables' changes Postgres sends, and proof that it sent them all along.
//!
//! A table that is taken out of the publication and put back leaves a gap in the stream that nothing in the stream shows.
//! So each membership is known by the oid of its catalog row (`pg_publication_rel`), which a table that comes back does not
//! get again. What calve last saw of a publication of its own stands in the publication's comment, changed in the same
//! transaction as the publication; so edits by hand are noticed after a restart too, and what calve itself took out for a run
//! without the table is known when the table comes back. A publication made by somebody else is
//! left as it is: what happens to it while calve runs is noticed, what happens while calve is down is not.

mod catalog;
mod membership;

use std::collections::{BTreeMap, BTreeSet};

use calve_core::{Error, ErrorKind, Result, StopReason, TableName};
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Oid;
use tokio_postgres::{Client, GenericClient};

use self::catalog::{Publication, columns_of, followed, read, unusable};
pub(crate) use self::membership::Membership;

use crate::describe::qualified;
use crate::error::{ServerError, code, sql_error};
use crate::sql::{identifier, literal};

/// Begins the comment on a publication that calve made and may alter.
const MANAGED: &str = "managed by calve, not to be edited: ";

/// What is kept in the comment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    publication: Oid,
    version: String,
    /// Table to membership row.
    members: BTreeMap<Oid, Oid>,
    /// Tables that are out of the publication, or were for some time, until they are read again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    gaps: BTreeSet<Oid>,
}

/// An ALTER PUBLICATION waits for maintenance and DDL on the tables it names, and others queue up behind it.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '30s'";
/// Who may alter the publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Calve makes it and keeps it as it should be.
    Calve,
    /// It is used as it is.
    User,
}

/// Makes sure that the publication carries exactly (its own) or at least (a user's) these tables. Returns the tables that
/// cannot go on, and why: those that are gone or without identity, which it does not carry, and those that it did not carry
/// all the time since calve last looked. `log_kept` says that there is a slot already, so that a missing publication was lost.
pub(crate) async fn follow(
    client: &mut Client,
    name: &str,
    owner: Owner,
    tables: &[TableName],
    log_kept: bool,
) -> Result<BTreeMap<TableName, StopReason>> {
    let mut stops = unusable(client, tables).await?;
    let usable: Vec<TableName> = tables.iter().filter(|table| !stops.contains_key(*table)).cloned().collect();
    let found = read(client, name).await?;
    let record = found.as_ref().and_then(|publication| record_of(publication.comment.as_deref()));
    match (found, record) {
        (Some(publication), None) => stops.extend(check(client, name, &publication, &usable).await?),
        (None, _) if owner == Owner::User => {
            return Err(Error::new(
                ErrorKind::Config,
                format!("publication {name} does not exist: run {}", create_statement(name, &usable)),
            ));
        }
        (found, record) => {
            let members = found.iter().flat_map(|publication| publication.members.values()).map(|member| &member.table);
            let members: BTreeSet<TableName> = members.cloned().collect();
            let added: Vec<TableName> = usable.iter().filter(|table| !members.contains(table)).cloned().collect();
            // One that may not be added must not keep the others out. Without any there is nothing to protect yet.
            let unowned = if members.is_empty() { BTreeMap::new() } else { unowned(client, name, &added).await? };
            let usable: Vec<TableName> = usable.into_iter().filter(|table| !unowned.contains_key(table)).collect();
            stops.extend(unowned);
            let record = record.unwrap_or_default();
            stops.extend(manage(client, name, found, record, &usable, log_kept).await?);
        }
    }
    Ok(stops)
}

fn record_of(comment: Option<&str>) -> Option<Record> {
    serde_json::from_str(comment?.strip_prefix(MANAGED)?).ok()
}

/// A publication that is not calve's must suffice as it is. Returns the tables for which it does not.
async fn check(
    client: &Client,
    name: &str,
    publication: &Publication,
    tables: &[TableName],
) -> Result<BTreeMap<TableName, StopReason>> {
    if !publication.complete {
        return Err(Error::new(
            ErrorKind::Config,
            format!(
                "publication {name} does not send every kind of change: run ALTER PUBLICATION {} SET (publish = 'insert, \
                 update, delete, truncate')",
                identifier(name)
            ),
        ));
    }
    let mut wrong = BTreeMap::new();
    let followed = followed(client, publication, tables).await?;
    for table in tables {
        let carried = followed.iter().find(|followed| followed.table == *table);
        if carried.is_some_and(|followed| followed.partitioned) && !publication.via_root {
            let what = format!("publication {name} sends the partitions of table {table} under their own names");
            let remedy = format!("run ALTER PUBLICATION {} SET (publish_via_partition_root = true)", identifier(name));
            wrong.insert(table.clone(), not_published(table, what, &remedy));
            continue;
        }
        let Some(carried) = carried.filter(|followed| !followed.rows.is_empty()) else {
            let what = format!("publication {name} does not carry table {table}");
            let remedy = format!("run ALTER PUBLICATION {} ADD TABLE {}", identifier(name), listed([table]));
            wrong.insert(table.clone(), not_published(table, what, &remedy));
            continue;
        };
        let filtered = publication.members.values().any(|m| m.filtered && carried.rows.contains(&m.row));
        if filtered {
            let what = format!("publication {name} carries only some rows or columns of table {table}");
            wrong.insert(table.clone(), not_published(table, what, "remove its WHERE and its column list"));
        }
    }
    Ok(wrong)
}

/// The `state` of a table whose changes the publication does not send.
const NOT_PUBLISHED: &str = "not published";

fn not_published(table: &TableName, what: String, remedy: &str) -> StopReason {
    StopReason { state: NOT_PUBLISHED.into(), detail: what, remedy: format!("{remedy}, then `calve reload {table}`") }
}

/// The error that a table without its changes in the stream is to whoever wants to read it.
pub(crate) fn unpublished(reason: Option<&StopReason>) -> Result<()> {
    match reason.filter(|reason| reason.state == NOT_PUBLISHED) {
        Some(reason) => Err(Error::new(ErrorKind::Config, format!("{}: {}", reason.detail, reason.remedy))),
        None => Ok(()),
    }
}

/// Of `tables` those that only somebody else may add to a publication.
async fn unowned(client: &Client, name: &str, tables: &[TableName]) -> Result<BTreeMap<TableName, StopReason>> {
    const QUERY: &str = "SELECT w.schema, w.name, c.relowner::regrole::text, current_user::text \
         FROM unnest($1::text[], $2::text[]) AS w (schema, name) JOIN pg_namespace n ON n.nspname = w.schema \
         JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name \
         WHERE NOT pg_has_role(c.relowner, 'USAGE')";
    let (schemas, names) = columns_of(tables);
    let failed = |error: tokio_postgres::Error| sql_error("cannot look up the owners of tables", &error);
    let mut unowned = BTreeMap::new();
    for row in client.query(QUERY, &[&schemas, &names]).await.map_err(failed)? {
        let (schema, of): (&str, &str) = (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
        let (owner, user): (&str, &str) = (row.try_get(2).map_err(failed)?, row.try_get(3).map_err(failed)?);
        let table = TableName::new(schema, of);
        let what = format!("table {table} belongs to {owner}, so that {user} cannot add it to publication {name}");
        let remedy = format!("run ALTER TABLE {} OWNER TO {user}, or GRANT {owner} TO {user}", qualified(&table));
        unowned.insert(table.clone(), not_published(&table, what, &remedy));
    }
    Ok(unowned)
}

/// How a publication stands before a pipeline uses it.
pub(crate) enum Standing {
    /// It does not exist.
    Missing,
    /// Calve made it.
    Managed {
        /// Whether the present user may alter it.
        owned: bool,
        owner: String,
        /// Tables in it.
        members: BTreeSet<Oid>,
    },
    /// Somebody else did, and whether it suffices.
    Foreign(Result<()>),
}

/// Looks at a publication without changing anything.
pub(crate) async fn standing(client: &Client, name: &str, tables: &[TableName]) -> Result<Standing> {
    let failed = |error: tokio_postgres::Error| sql_error(format_args!("cannot read publication {name}"), &error);
    let Some(publication) = read(client, name).await? else { return Ok(Standing::Missing) };
    if record_of(publication.comment.as_deref()).is_none() {
        let wrong = check(client, name, &publication, tables).await;
        let suffices = wrong.and_then(|wrong| wrong.values().try_for_each(|reason| unpublished(Some(reason))));
        return Ok(Standing::Foreign(suffices));
    }
    let row = client
        .query_one(
            "SELECT pg_has_role(p.pubowner, 'USAGE'), pg_get_userbyid(p.pubowner)::text FROM pg_publication p WHERE p.oid = $1",
            &[&publication.oid],
        )
        .await
        .map_err(failed)?;
    Ok(Standing::Managed {
        owned: row.try_get(0).map_err(failed)?,
        owner: row.try_get(1).map_err(failed)?,
        members: publication.members.into_keys().collect(),
    })
}

/// As a list of tables in a statement on publications. Without ONLY tables that inherit from these would be meant too, whose changes nobody
/// asked for, and whose UPDATEs and DELETEs fail where they have no key: a key is not inherited.
fn listed<'a>(tables: impl IntoIterator<Item = &'a TableName>) -> String {
    let each: Vec<String> = tables.into_iter().map(|table| format!("ONLY {}", qualified(table))).collect();
    each.join(", ")
}

pub(crate) fn create_statement(name: &str, tables: &[TableName]) -> String {
    let tables = if tables.is_empty() { String::new() } else { format!("FOR TABLE {} ", listed(tables)) };
    format!(
        "CREATE PUBLICATION {} {tables}WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true)",
        identifier(name)
    )
}

/// Creates calve's own publication or brings it to carry exactly these tables, remembering in its comment what it is now.
async fn manage(
    client: &mut Client,
    name: &str,
    found: Option<Publication>,
    record: Record,
    tables: &[TableName],
    log_kept: bool,
) -> Result<BTreeMap<TableName, StopReason>> {
    let failed = |error: tokio_postgres::Error| manage_error(name, tables, &error);
    let transaction = client.transaction().await.map_err(failed)?;
    transaction.batch_execute(LOCK_TIMEOUT).await.map_err(failed)?;
    let existed = found.is_some();
    match found {
        None => transaction.batch_execute(&create_statement(name, tables)).await.map_err(failed)?,
        Some(before) => {
            let statements = alterations(name, &before, tables);
            if !statements.is_empty() {
                transaction.batch_execute(&statements).await.map_err(failed)?;
            }
        }
    }
    let after = read(&transaction, name).await?;
    let after =
        after.ok_or_else(|| Error::new(ErrorKind::Retry, format!("publication {name} was dropped just now")))?;
    let members: BTreeMap<Oid, Oid> = after.members.iter().map(|(oid, member)| (*oid, member.row)).collect();
    let mut gaps = match (existed, log_kept) {
        (true, _) => gaps(&record, &after, &members),
        // It was dropped while the slot went on: none of the tables was carried since.
        (false, true) => members.keys().copied().collect(),
        (false, false) => BTreeSet::new(),
    };
    // So is what leaves it, by whatever hand, should it ever come back.
    let mut out = record.gaps.clone();
    out.extend(record.members.keys());
    out.retain(|table| !members.contains_key(table));
    gaps.extend(names_now(&transaction, out).await?.into_keys());
    // Whoever ALTERs the options in this very transaction changes the version as well, so it is read after that.
    let now = Record { publication: after.oid, version: after.version.clone(), members, gaps };
    if now != record {
        put_record(&transaction, name, &now).await?;
    }
    transaction.commit().await.map_err(failed)?;
    let missed = after.members.iter().filter(|(oid, _)| now.gaps.contains(oid));
    Ok(missed.map(|(_, member)| (member.table.clone(), gap_reason(&member.table, name))).collect())
}

/// Tables of `record` that are members now and were not all the time.
fn gaps(record: &Record, after: &Publication, members: &BTreeMap<Oid, Oid>) -> BTreeSet<Oid> {
    let other = record.publication != after.oid || (record.version != after.version && !record.version.is_empty());
    let missed = |table: &Oid, row: &Oid| {
        record.gaps.contains(table) || record.members.get(table).is_some_and(|before| before != row || other)
    };
    members.iter().filter(|(table, row)| missed(table, row)).map(|(table, _)| *table).collect()
}

fn alterations(name: &str, before: &Publication, tables: &[TableName]) -> String {
    let quoted = identifier(name);
    let mut statements = Vec::new();
    if !before.complete || !before.via_root {
        statements.push(format!(
            "ALTER PUBLICATION {quoted} SET (publish = 'insert, update, delete, truncate', publish_via_partition_root = true)"
        ));
    }
    // A member with a filter is dropped and added again without it; its new row tells that rows were missed.
    let drop: Vec<&TableName> =
        before.members.values().filter(|m| m.filtered || !tables.contains(&m.table)).map(|m| &m.table).collect();
    let add: Vec<&TableName> = tables
        .iter()
        .filter(|table| !before.members.values().any(|member| member.table == **table && !member.filtered))
        .collect();
    if !drop.is_empty() {
        statements.push(format!("ALTER PUBLICATION {quoted} DROP TABLE {}", listed(drop)));
    }
    if !add.is_empty() {
        statements.push(format!("ALTER PUBLICATION {quoted} ADD TABLE {}", listed(add)));
    }
    statements.join("; ")
}

async fn put_record(client: &impl GenericClient, name: &str, record: &Record) -> Result<()> {
    let json = serde_json::to_string(record)
        .map_err(|error| Error::with_source(ErrorKind::Bug, "the publication's record cannot be written", error))?;
    let comment = literal(&format!("{MANAGED}{json}"));
    let statement = format!("COMMENT ON PUBLICATION {} IS {comment}", identifier(name));
    client.batch_execute(&statement).await.map_err(|e| sql_error(format!("cannot comment on publication {name}"), &e))
}

/// Forgets the gaps of tables that are about to be read again.
pub(crate) async fn forgive(client: &mut Client, name: &str, tables: &[TableName]) -> Result<()> {
    let failed = |error: tokio_postgres::Error| sql_error(format!("cannot update publication {name}"), &error);
    let transaction = client.transaction().await.map_err(failed)?;
    let Some(publication) = read(&transaction, name).await? else { return Ok(()) };
    let Some(mut record) = record_of(publication.comment.as_deref()) else { return Ok(()) };
    let before = record.gaps.len();
    for (oid, member) in &publication.members {
        if tables.contains(&member.table) {
            record.gaps.remove(oid);
        }
    }
    if record.gaps.len() < before {
        put_record(&transaction, name, &record).await?;
    }
    transaction.commit().await.map_err(failed)
}

/// Of `tables` those that exist, under whatever name they have now.
pub(crate) async fn names_now(
    client: &impl GenericClient,
    tables: impl IntoIterator<Item = Oid>,
) -> Result<BTreeMap<Oid, TableName>> {
    const QUERY: &str = "SELECT c.oid, n.nspname::text, c.relname::text FROM pg_class c \
         JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY($1)";
    let failed = |error: tokio_postgres::Error| sql_error("cannot look up the names of tables", &error);
    let oids: Vec<Oid> = tables.into_iter().collect();
    let mut names = BTreeMap::new();
    for row in client.query(QUERY, &[&oids]).await.map_err(failed)? {
        let (schema, name): (&str, &str) = (row.try_get(1).map_err(failed)?, row.try_get(2).map_err(failed)?);
        names.insert(row.try_get(0).map_err(failed)?, TableName::new(schema, name));
    }
    Ok(names)
}

fn dropped(table: &TableName) -> StopReason {
    missing(table, "the table was dropped or renamed in Postgres".into())
}

/// Why a table stops that does not go by its name any more.
pub(crate) fn missing(table: &TableName, detail: String) -> StopReason {
    StopReason {
        state: StopReason::DROPPED.into(),
        detail,
        remedy: format!("take {table} out of the configuration, or run `calve reload {table}` once it exists again"),
    }
}

fn manage_error(name: &str, tables: &[TableName], error: &tokio_postgres::Error) -> Error {
    match ServerError::from_sql(error) {
        Some(server) if server.code == code::INSUFFICIENT_PRIVILEGE => Error::new(
            ErrorKind::Config,
            format!(
                "cannot make publication {name}: {server}; let the user own the tables and have CREATE on the database, or have a \
                 superuser run {}",
                create_statement(name, tables)
            ),
        ),
        _ => sql_error(format!("cannot make publication {name}"), error),
    }
}

fn gap_reason(table: &TableName, publication: &str) -> StopReason {
    StopReason {
        state: "log lost".into(),
        detail: format!(
            "publication {publication} did not carry every change of the table: the table was out of calve's configuration for a \
             while, or the publication was altered by hand"
        ),
        remedy: format!("run `calve reload {table}`, and leave the publication to calve"),
    }
}

/// Removes calve's own publication; one that calve did not make stays. Returns whether it went.
pub(crate) async fn drop(client: &Client, name: &str) -> Result<bool> {
    match read(client, name).await? {
        Some(publication) if record_of(publication.comment.as_deref()).is_some() => {
            let statement = format!("DROP PUBLICATION {}", identifier(name));
            client
                .batch_execute(&statement)
                .await
                .map_err(|error| sql_error(format!("cannot drop publication {name}"), &error))?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

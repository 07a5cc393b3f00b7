//! What the user may do, and the statements that grant the rest.

use std::collections::{BTreeMap, BTreeSet};

use calve_core::{Error, Result};
use tokio_postgres::Client;

use super::{of_configuration, of_error};
use crate::describe::qualified;
use crate::error::sql_error;
use crate::publication::Standing;
use crate::relation::Relation;
use crate::source::PostgresSettings;
use crate::sql::identifier;
use calve_core::Finding;

/// The user calve logs in as.
pub(super) struct Role {
    pub(super) name: String,
    /// Has the REPLICATION attribute, or is superuser.
    replicates: bool,
    /// None for no limit.
    pub(super) connection_limit: Option<i32>,
}

const ROLE: &str = "SELECT rolname::text, rolreplication OR rolsuper, \
       CASE WHEN rolconnlimit >= 0 AND NOT rolsuper THEN rolconnlimit END \
  FROM pg_catalog.pg_roles WHERE rolname = current_user";

impl Role {
    pub(super) async fn read(client: &Client) -> Result<Self> {
        let failed = |error: tokio_postgres::Error| sql_error("cannot look up the present user", &error);
        let row = client.query_one(ROLE, &[]).await.map_err(failed)?;
        Ok(Self {
            name: row.try_get(0).map_err(failed)?,
            replicates: row.try_get(1).map_err(failed)?,
            connection_limit: row.try_get(2).map_err(failed)?,
        })
    }

    /// A replication connection was refused. On some services membership in a role stands for the attribute, so only the
    /// attempt tells.
    pub(super) fn cannot_replicate(&self, error: &Error) -> Finding {
        if self.replicates {
            return of_error(error);
        }
        let user = identifier(&self.name);
        Finding::error(
            format!("user {} may not replicate", self.name),
            format!("ALTER ROLE {user} REPLICATION (on Amazon RDS: GRANT rds_replication TO {user})"),
        )
    }
}

/// Everything that must be granted, as one block to paste, and what is wrong with the publication.
pub(super) async fn check(
    client: &Client,
    settings: &PostgresSettings,
    role: &Role,
    publication: Standing,
    relations: &[Relation],
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let user = identifier(&role.name);
    let mut lacking = Vec::new();
    let mut grants: Vec<String> = Vec::new();

    let unreadable: Vec<&Relation> =
        relations.iter().filter(|relation| !relation.schema_usable || !relation.readable).collect();
    if !unreadable.is_empty() {
        lacking.push(format!("read {}", list(unreadable.iter().map(|relation| relation.table.to_string()))));
        grants.extend(unreadable.iter().flat_map(|relation| relation.grants()));
    }

    let name = &settings.publication;
    match publication {
        Standing::Missing if !settings.manage_publication => findings.push(Finding::error(
            format!("publication {name} does not exist"),
            crate::publication::create_statement(
                name,
                &relations.iter().map(|relation| relation.table.clone()).collect::<Vec<_>>(),
            ),
        )),
        Standing::Missing => {
            let (may_create, database) = may_create(client).await?;
            if !may_create {
                lacking.push(format!("create a publication in database {database}"));
                grants.push(format!("GRANT CREATE ON DATABASE {} TO {user}", identifier(&database)));
            }
            ownership(relations.iter(), &user, &mut lacking, &mut grants);
        }
        Standing::Managed { owned, owner, members } => {
            if !owned {
                lacking.push(format!("alter publication {name}"));
                grants.push(format!("GRANT {} TO {user}", identifier(&owner)));
            }
            let missing = relations.iter().filter(|relation| !members.contains(&relation.oid));
            ownership(missing, &user, &mut lacking, &mut grants);
        }
        Standing::Foreign(Ok(())) => findings.extend(generated_columns(client, name, relations).await?),
        Standing::Foreign(Err(error)) => findings.push(of_configuration(error)?),
    }
    if !lacking.is_empty() {
        let unique: BTreeSet<&String> = grants.iter().collect();
        let block: Vec<String> = unique.into_iter().map(|grant| format!("{grant};")).collect();
        findings
            .push(Finding::error(format!("user {} may not {}", role.name, lacking.join(", nor ")), block.join("\n")));
    }
    Ok(findings)
}

/// Only who owns a table, or belongs to the role that does, may publish it.
fn ownership<'a>(
    relations: impl Iterator<Item = &'a Relation>,
    user: &str,
    lacking: &mut Vec<String>,
    grants: &mut Vec<String>,
) {
    let mut owners: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for relation in relations.filter(|relation| !relation.owned) {
        owners.entry(&relation.owner).or_default().push(qualified(&relation.table));
    }
    for (owner, tables) in owners {
        lacking.push(format!("publish {}, owned by {owner}", list(tables.into_iter())));
        grants.push(format!("GRANT {} TO {user}", identifier(owner)));
    }
}

/// The first few, and how many more.
fn list(names: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN: usize = 10;
    let more = names.len().saturating_sub(SHOWN);
    let shown: Vec<String> = names.take(SHOWN).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// From Postgres 18 on a publication may send generated columns, which calve leaves out.
async fn generated_columns(client: &Client, name: &str, relations: &[Relation]) -> Result<Option<Finding>> {
    let failed = |error: tokio_postgres::Error| sql_error(format_args!("cannot read publication {name}"), &error);
    // The column is taken from the row as JSON, because older servers do not have it.
    let sends = "SELECT FROM pg_catalog.pg_publication p WHERE pubname = $1 AND to_jsonb(p)->>'pubgencols' = 's'";
    let sends = client.query_opt(sends, &[&name]).await.map_err(failed)?.is_some();
    let table = relations.iter().find(|relation| !relation.generated.is_empty());
    Ok(table.filter(|_| sends).map(|relation| {
        Finding::error(
            format!(
                "publication {name} sends generated columns, which table {} has and calve leaves out",
                relation.table
            ),
            format!("ALTER PUBLICATION {} SET (publish_generated_columns = none)", identifier(name)),
        )
    }))
}

async fn may_create(client: &Client) -> Result<(bool, String)> {
    let failed = |error: tokio_postgres::Error| sql_error("cannot look up the database's privileges", &error);
    let row = client
        .query_one(
            "SELECT pg_catalog.has_database_privilege(current_database(), 'CREATE'), current_database()::text",
            &[],
        )
        .await
        .map_err(failed)?;
    Ok((row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?))
}

//! The publication and its members as the catalog has them.

use std::collections::{BTreeMap, BTreeSet};

use calve_core::{Result, StopReason, TableName};
use tokio_postgres::types::Oid;
use tokio_postgres::{Client, GenericClient};

use super::dropped;
use crate::describe::qualified;
use crate::error::sql_error;

/// A publication as the catalog has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Publication {
    pub(super) oid: Oid,
    /// Changes with every ALTER of its options.
    pub(super) version: String,
    all_tables: bool,
    /// Whether inserts, updates, deletes and truncates are all sent.
    pub(super) complete: bool,
    pub(super) via_root: bool,
    pub(super) comment: Option<String>,
    /// Members by their table, and their row's oid.
    pub(super) members: BTreeMap<Oid, Member>,
    /// Schemas all of whose tables are members, with their row's oid.
    schemas: BTreeMap<String, Oid>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) row: Oid,
    pub(super) table: TableName,
    /// Only some rows or columns are sent.
    pub(super) filtered: bool,
}

/// A followed table and the catalog rows that put it into the publication, directly or through an ancestor or schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Followed {
    pub(super) table: TableName,
    pub(super) oid: Oid,
    /// Whether it is a partitioned table.
    pub(super) partitioned: bool,
    /// Empty: its changes are not sent, or not under its name.
    pub(super) rows: BTreeSet<Oid>,
}

const PUBLICATION: &str = "SELECT p.oid, p.xmin::text, p.puballtables, p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate, \
     p.pubviaroot, obj_description(p.oid, 'pg_publication') FROM pg_publication p WHERE p.pubname = $1";
const MEMBERS: &str = "SELECT r.oid, r.prrelid, n.nspname::text, c.relname::text, r.prqual IS NOT NULL OR r.prattrs IS NOT NULL \
     FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE r.prpubid = $1";
const SCHEMAS: &str = "SELECT n.nspname::text, s.oid FROM pg_publication_namespace s \
     JOIN pg_namespace n ON n.oid = s.pnnspid WHERE s.pnpubid = $1";
/// A table and its partition ancestors: each may be the member that carries it.
const ANCESTORS: &str = "SELECT c.oid, up.oid, an.nspname::text, n.nspname::text, c.relname::text, c.relkind = 'p' \
     FROM unnest($1::text[], $2::text[]) AS w (schema, name) \
     JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name \
     JOIN LATERAL (SELECT c.oid AS oid UNION SELECT relid::oid FROM pg_partition_ancestors(c.oid)) up ON true \
     JOIN pg_class a ON a.oid = up.oid JOIN pg_namespace an ON an.oid = a.relnamespace";

pub(super) async fn read(client: &impl GenericClient, name: &str) -> Result<Option<Publication>> {
    let failed = |error: tokio_postgres::Error| sql_error(format_args!("cannot read publication {name}"), &error);
    let Some(row) = client.query_opt(PUBLICATION, &[&name]).await.map_err(failed)? else { return Ok(None) };
    let mut publication = Publication {
        oid: row.try_get(0).map_err(failed)?,
        version: row.try_get(1).map_err(failed)?,
        all_tables: row.try_get(2).map_err(failed)?,
        complete: row.try_get(3).map_err(failed)?,
        via_root: row.try_get(4).map_err(failed)?,
        comment: row.try_get(5).map_err(failed)?,
        members: BTreeMap::new(),
        schemas: BTreeMap::new(),
    };
    for row in client.query(MEMBERS, &[&publication.oid]).await.map_err(failed)? {
        let member = Member {
            row: row.try_get(0).map_err(failed)?,
            table: TableName::new(
                row.try_get::<_, &str>(2).map_err(failed)?,
                row.try_get::<_, &str>(3).map_err(failed)?,
            ),
            filtered: row.try_get(4).map_err(failed)?,
        };
        publication.members.insert(row.try_get(1).map_err(failed)?, member);
    }
    for row in client.query(SCHEMAS, &[&publication.oid]).await.map_err(failed)? {
        publication.schemas.insert(row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
    }
    Ok(Some(publication))
}

impl Publication {
    /// The catalog rows by which a table is a member itself.
    fn rows_of(&self, oid: Oid, schema: &str) -> impl Iterator<Item = Oid> {
        let member = self.members.get(&oid).map(|member| member.row);
        let schema = self.schemas.get(schema).copied();
        member.into_iter().chain(schema).chain(self.all_tables.then_some(self.oid))
    }
}

/// Where each table stands in the publication; tables that do not exist are left out.
pub(super) async fn followed(
    client: &impl GenericClient,
    publication: &Publication,
    tables: &[TableName],
) -> Result<Vec<Followed>> {
    let (schemas, names) = columns_of(tables);
    let failed = |error: tokio_postgres::Error| sql_error("cannot look up the published tables", &error);
    let mut found: BTreeMap<Oid, Followed> = BTreeMap::new();
    let mut through_ancestors: BTreeMap<Oid, BTreeSet<Oid>> = BTreeMap::new();
    for row in client.query(ANCESTORS, &[&schemas, &names]).await.map_err(failed)? {
        let (oid, ancestor): (Oid, Oid) = (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
        let ancestor_schema: &str = row.try_get(2).map_err(failed)?;
        let table =
            TableName::new(row.try_get::<_, &str>(3).map_err(failed)?, row.try_get::<_, &str>(4).map_err(failed)?);
        let partitioned = row.try_get(5).map_err(failed)?;
        let entry = found.entry(oid).or_insert_with(|| Followed { table, oid, partitioned, rows: BTreeSet::new() });
        let rows = publication.rows_of(ancestor, ancestor_schema);
        if ancestor == oid {
            entry.rows.extend(rows);
        } else {
            through_ancestors.entry(oid).or_default().extend(rows);
        }
    }
    for (oid, followed) in &mut found {
        let above = through_ancestors.remove(oid).unwrap_or_default();
        if publication.via_root {
            // What a member above it carries comes under that member's name.
            if !above.is_empty() {
                followed.rows.clear();
            }
        } else if followed.partitioned {
            // Its rows come under the names of its partitions.
            followed.rows.clear();
        } else {
            followed.rows.extend(above);
        }
    }
    Ok(found.into_values().collect())
}

/// Of `tables` those that must not be published: those that are gone, and those without a usable replica identity, whose
/// UPDATEs and DELETEs Postgres would refuse from then on.
pub(super) async fn unusable(client: &Client, tables: &[TableName]) -> Result<BTreeMap<TableName, StopReason>> {
    const QUERY: &str = "SELECT w.schema, w.name, c.oid IS NOT NULL, \
           EXISTS (SELECT FROM (SELECT c.oid AS oid UNION SELECT relid::oid FROM pg_partition_tree(c.oid) WHERE isleaf) leaf \
                JOIN pg_class l ON l.oid = leaf.oid \
               WHERE l.relreplident <> 'f' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = l.oid AND i.indisvalid \
                 AND i.indimmediate AND CASE l.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END)) \
         FROM unnest($1::text[], $2::text[]) AS w (schema, name) \
         LEFT JOIN pg_namespace n ON n.nspname = w.schema \
         LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND c.relkind IN ('r', 'p')";
    let (schemas, names) = columns_of(tables);
    let failed = |error: tokio_postgres::Error| sql_error("cannot look up replica identities", &error);
    let mut unusable = BTreeMap::new();
    for row in client.query(QUERY, &[&schemas, &names]).await.map_err(failed)? {
        let table =
            TableName::new(row.try_get::<_, &str>(0).map_err(failed)?, row.try_get::<_, &str>(1).map_err(failed)?);
        let (exists, without_identity): (bool, bool) =
            (row.try_get(2).map_err(failed)?, row.try_get(3).map_err(failed)?);
        if !exists {
            unusable.insert(table.clone(), dropped(&table));
        } else if without_identity {
            let reason = StopReason {
                state: StopReason::SCHEMA_CHANGED.into(),
                detail: "it has no usable replica identity any more, and publishing it would make its UPDATEs and DELETEs fail in \
                         Postgres"
                    .into(),
                remedy: format!(
                    "run ALTER TABLE {0} ADD PRIMARY KEY (..) or ALTER TABLE {0} REPLICA IDENTITY USING INDEX .. (of a table \
                     without a key, in mode append: FULL), then `calve reload {table}`",
                    qualified(&table)
                ),
            };
            unusable.insert(table, reason);
        }
    }
    Ok(unusable)
}

pub(super) fn columns_of(tables: &[TableName]) -> (Vec<&str>, Vec<&str>) {
    tables.iter().map(|table| (table.schema.as_str(), table.name.as_str())).unzip()
}

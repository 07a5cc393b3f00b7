//! Labels of enums that are renamed: all rows that hold one are called otherwise at once, and the log has nothing of it.
//!
//! The catalog numbers labels, and a label keeps its number. So the labels that a table's columns may hold are compared with those that
//! they had, again and again, as partitions are.

use std::collections::BTreeMap;

use calve_core::{ColumnUse, Result, SourceTable, StopReason, TableName};
use tokio_postgres::Client;
use tokio_postgres::types::Oid;

use crate::error::sql_error;
use crate::partitions::Findings;

/// By the number of each, what it is called.
pub(crate) type Labels = BTreeMap<u32, String>;

/// Every label that a column of some tables may hold: as its type, or inside of an array, a domain, a composite type or a range. Types are
/// looked into once, however many columns have them.
const LABELS: &str = "WITH RECURSIVE used AS ( \
       SELECT a.attrelid AS root, a.attnum AS number, a.atttypid AS type FROM pg_catalog.pg_attribute a \
        WHERE a.attrelid = ANY ($1) AND a.attnum > 0 AND NOT a.attisdropped), \
     inside AS ( \
       SELECT used.type AS whole, used.type FROM used \
       UNION \
       SELECT inside.whole, next.type FROM inside JOIN pg_catalog.pg_type t ON t.oid = inside.type, \
         LATERAL (SELECT t.typelem UNION ALL SELECT t.typbasetype \
            UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid) \
            UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a \
                       WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) AS next (type) \
        WHERE next.type <> 0) \
     SELECT used.root, used.number, e.oid, e.enumlabel::text, pg_catalog.format_type(e.enumtypid, NULL) \
       FROM inside JOIN pg_catalog.pg_enum e ON e.enumtypid = inside.type JOIN used ON used.type = inside.whole";

struct Present {
    column: u32,
    number: u32,
    label: String,
    /// What its type is called.
    of: String,
}

async fn present(client: &Client, tables: &[Oid]) -> Result<BTreeMap<Oid, Vec<Present>>> {
    let failed = |error: tokio_postgres::Error| sql_error("cannot look at the labels of enums", &error);
    let mut found: BTreeMap<Oid, Vec<Present>> = BTreeMap::new();
    for row in client.query(LABELS, &[&tables]).await.map_err(failed)? {
        let present = Present {
            column: u32::try_from(row.try_get::<_, i16>(1).map_err(failed)?).unwrap_or(0),
            number: row.try_get(2).map_err(failed)?,
            label: row.try_get(3).map_err(failed)?,
            of: row.try_get(4).map_err(failed)?,
        };
        found.entry(row.try_get(0).map_err(failed)?).or_default().push(present);
    }
    Ok(found)
}

/// The labels that columns of one table may hold.
pub(crate) async fn read(client: &Client, table: Oid) -> Result<Labels> {
    let found = present(client, &[table]).await?.remove(&table).unwrap_or_default();
    Ok(found.into_iter().map(|present| (present.number, present.label)).collect())
}

/// The labels of the followed tables, from look to look.
pub(crate) struct Watch(Vec<Watched>);

struct Watched {
    table: TableName,
    oid: Oid,
    /// Columns that the lake does not get.
    left_out: Vec<u32>,
    known: Labels,
}

impl Watch {
    pub(crate) fn new(tables: &[SourceTable]) -> Self {
        let watched = |table: &SourceTable| {
            let left_out = table.schema.columns.iter().filter(|column| column.usage == ColumnUse::LeftOut);
            Watched {
                table: table.name.clone(),
                oid: table.schema.native_id,
                left_out: left_out.map(|column| column.id).collect(),
                known: table.schema.labels.clone(),
            }
        };
        Self(tables.iter().map(watched).collect())
    }

    /// Adds what became of labels since the last look, or since the rows were read.
    pub(crate) async fn look(&mut self, client: &Client, findings: &mut Findings) -> Result<()> {
        let tables: Vec<Oid> = self.0.iter().map(|watched| watched.oid).collect();
        let mut found = present(client, &tables).await?;
        for watched in &mut self.0 {
            let before = watched.known.len();
            let found = found.remove(&watched.oid).unwrap_or_default();
            // Another column may hold the same label.
            for now in found.into_iter().filter(|now| !watched.left_out.contains(&now.column)) {
                let was = watched.known.insert(now.number, now.label.clone());
                let Some(was) = was.filter(|was| *was != now.label) else { continue };
                let detail = format!(
                    "label '{was}' of {} was renamed to '{}', and rows that hold it are called so too, of which the log has nothing",
                    now.of, now.label
                );
                findings.stops.insert(watched.table.clone(), StopReason::schema_changed(&watched.table, detail));
            }
            if watched.known.len() > before {
                findings.labels.insert(watched.table.clone(), watched.known.clone());
            }
        }
        Ok(())
    }
}

#[cfg(all(test, feature = "servers"))]
mod tests {
    use calve_core::{Column, ColumnType, NativeType, TableSchema};
    use calve_testkit::servers::Postgres;

    use super::*;
    use crate::config::ConnectConfig;

    /// Statements, and what a look finds of each table then: its name with a part of the reason, or with `+` and the number of labels.
    const LOOKS: &[(&str, &[(&str, &str)])] = &[
        ("SELECT 1", &[]),
        ("ALTER TYPE mood ADD VALUE 'new'", &[("plain", "+3"), ("inside", "+5"), ("partly", "+3")]),
        (
            "ALTER TYPE mood RENAME VALUE 'new' TO 'newer'",
            &[("plain", "label 'new' of mood was renamed to 'newer'"), ("inside", "'newer'"), ("partly", "'newer'")],
        ),
        (
            "ALTER TYPE mood RENAME VALUE 'newer' TO 'new'",
            &[("plain", "label 'newer' of mood"), ("inside", "'new'"), ("partly", "'new'")],
        ),
        ("ALTER TYPE size RENAME VALUE 'S' TO 'small'", &[("inside", "label 'S' of size was renamed to 'small'")]),
        ("ALTER TYPE mood RENAME TO humour", &[]),
        ("ALTER TABLE plain ADD s size", &[("plain", "+5")]),
        ("ALTER TYPE size RENAME VALUE 'L' TO 'large'", &[("plain", "'large'"), ("inside", "'large'")]),
        ("ALTER TABLE plain DROP s; ALTER TYPE size RENAME VALUE 'large' TO 'L'", &[("inside", "'L'")]),
    ];

    #[tokio::test(flavor = "multi_thread")]
    async fn renamed_labels_are_noticed_wherever_they_are() {
        for version in [15, 17, 18] {
            let database = Postgres::shared(version).unwrap().create_database("labels").unwrap();
            let client = ConnectConfig::parse(&database.url("postgres").unwrap()).unwrap().connect_sql().await.unwrap();
            client
                .batch_execute(
                    "SET search_path = public; CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE size AS ENUM ('S', 'L');
                     CREATE DOMAIN some_mood AS mood CHECK (value <> 'sad'); CREATE TYPE pair AS (m some_mood, n int);
                     CREATE TYPE sizes AS RANGE (subtype = size);
                     CREATE TABLE plain (id int PRIMARY KEY, m mood); CREATE TABLE inside (id int PRIMARY KEY, p pair[], s sizes, r sizes);
                     CREATE TABLE left_out (id int PRIMARY KEY, m mood, s sizes); CREATE TABLE partly (id int PRIMARY KEY, m mood, n mood);
                     CREATE TABLE none (id int PRIMARY KEY)",
                )
                .await
                .unwrap();
            let mut tables = Vec::new();
            for name in ["plain", "inside", "left_out", "partly", "none"] {
                let row = client.query_one("SELECT $1::text::regclass::oid", &[&name]).await.unwrap();
                let oid: Oid = row.get(0);
                let is_left_out = |id| name == "left_out" || (name == "partly" && id == 2);
                let column = |id| Column {
                    id,
                    name: format!("c{id}"),
                    ty: ColumnType::String,
                    nullable: true,
                    native: NativeType::new(25, -1, "text"),
                    usage: if is_left_out(id) { ColumnUse::LeftOut } else { ColumnUse::Values },
                };
                let schema =
                    TableSchema::new(TableName::new("public", name), oid, (1..4).map(column).collect(), vec![0]);
                let labels = read(&client, oid).await.unwrap();
                let schema = std::sync::Arc::new(TableSchema { labels, ..schema });
                tables.push(SourceTable { name: schema.table.clone(), schema });
            }
            let mut watch = Watch::new(&tables);
            for (statement, expected) in LOOKS {
                client.batch_execute(statement).await.unwrap();
                let mut found = Findings::default();
                watch.look(&client, &mut found).await.unwrap();
                let stops = found.stops.iter().map(|(table, reason)| (table.name.clone(), reason.detail.clone()));
                let more = found.labels.iter().filter(|(table, _)| table.name != "left_out");
                let more = more.map(|(table, labels)| (table.name.clone(), format!("+{}", labels.len())));
                let found: BTreeMap<String, String> = stops.chain(more).collect();
                assert_eq!(found.len(), expected.len(), "{statement}: {found:?}");
                for (table, says) in *expected {
                    assert!(found.get(*table).is_some_and(|said| said.contains(says)), "{statement}: {found:?}");
                }
            }
        }
    }
}

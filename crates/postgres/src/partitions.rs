//! Partitions that come and go. Rows reach the log as the partitioned table's while their partition is one of its parts; what a
//! partition holds when it is attached, and what goes with one that is detached, dropped or truncated, is not in the log at all.
//!
//! So the catalog is compared with the partitions that the table's rows came from, again and again. A partition that comes is as
//! good as empty where it was made as one, or has no rows; one that goes is not. A file that is replaced stands for a TRUNCATE,
//! unless rows of before are still there, or the statement is one that the log tells of.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use calve_core::{Error, ErrorKind, Lsn, Partition, Partitions, Result, SourceTable, StopReason, TableName};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Oid;
use tokio_postgres::{Client, Row};

use crate::describe::qualified;
use crate::error::sql_error;
use crate::labels::Labels;

/// Everything beneath some tables. Reads as the snapshot of its transaction has it, unlike `pg_partition_tree`.
const BENEATH: &str = "WITH RECURSIVE tree AS ( \
       SELECT i.inhparent AS root, i.inhrelid, i.inhparent, i.xmin, i.cmin FROM pg_catalog.pg_inherits i \
        WHERE i.inhparent = ANY ($1) AND NOT i.inhdetachpending \
       UNION ALL \
       SELECT tree.root, i.inhrelid, i.inhparent, i.xmin, i.cmin FROM tree \
         JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.inhrelid WHERE NOT i.inhdetachpending) \
     SELECT tree.root, c.oid, tree.xmin::text::int8, CASE c.relkind WHEN 'p' THEN 0 ELSE c.relfilenode END, tree.inhparent, \
            n.nspname::text, c.relname::text, c.xmin::text::int8, \
            EXISTS (SELECT FROM pg_catalog.pg_attribute a \
                     WHERE a.attrelid = c.oid AND a.attnum = -1 AND a.xmin = tree.xmin \
                       AND tree.cmin::text::int8 - a.cmin::text::int8 BETWEEN 0 AND 4 \
                       AND EXISTS (SELECT FROM pg_catalog.pg_attribute own \
                            WHERE own.attrelid = a.attrelid AND own.attnum > 0 AND NOT own.attisdropped \
                              AND own.xmin = a.xmin AND own.cmin::text = a.cmin::text)), \
            EXISTS (SELECT FROM pg_catalog.pg_attribute a \
                     WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.xmin = c.xmin), \
            pg_catalog.has_table_privilege(c.oid, 'SELECT') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') \
                AND NOT pg_catalog.row_security_active(c.oid) \
       FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.inhrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
      ORDER BY tree.root, c.oid";

/// A partition as the catalog has it.
#[derive(Clone, Debug)]
struct Present {
    partition: Partition,
    parent: Oid,
    name: TableName,
    /// The transaction that changed what the catalog says of it last.
    changed_by: u32,
    /// It was made as a partition, by one statement: that takes at most four commands of the transaction, and leaves the columns as
    /// they were made. One that attaches a table writes all of them once more, to say that they are inherited.
    born: bool,
    /// The same transaction changed its columns.
    altered: bool,
    readable: bool,
}

/// The partitions of one table, by their numbers, as the snapshot shows them.
pub(crate) async fn read(client: &Client, root: Oid) -> Result<Vec<Partition>> {
    let beneath = beneath(client, &[root]).await?.remove(&root).unwrap_or_default();
    Ok(beneath.into_iter().map(|present| present.partition).collect())
}

async fn beneath(client: &Client, roots: &[Oid]) -> Result<BTreeMap<Oid, Vec<Present>>> {
    let mut tables: BTreeMap<Oid, Vec<Present>> = BTreeMap::new();
    for row in client.query(BENEATH, &[&roots]).await.map_err(failed)? {
        let root = row.try_get(0).map_err(failed)?;
        tables.entry(root).or_default().push(present(&row).map_err(failed)?);
    }
    Ok(tables)
}

fn present(row: &Row) -> std::result::Result<Present, tokio_postgres::Error> {
    let xid = |index| Ok(u32::try_from(row.try_get::<_, i64>(index)?).unwrap_or_default());
    Ok(Present {
        partition: Partition { native_id: row.try_get(1)?, attached_by: xid(2)?, file: row.try_get(3)? },
        parent: row.try_get(4)?,
        name: TableName::new(row.try_get::<_, &str>(5)?, row.try_get::<_, &str>(6)?),
        changed_by: xid(7)?,
        born: row.try_get(8)?,
        altered: row.try_get(9)?,
        readable: row.try_get(10)?,
    })
}

#[expect(clippy::needless_pass_by_value, reason = "as errors are handed over")]
fn failed(error: tokio_postgres::Error) -> Error {
    sql_error("cannot look at the partitions of the followed tables", &error)
}

/// What a look found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Tables whose rows are no longer those that the log told of.
    pub(crate) stops: BTreeMap<TableName, StopReason>,
    /// Tables whose partitions were emptied, by themselves or with the whole table: the log will say.
    pub(crate) doubts: Vec<Doubt>,
    /// The partitions from here on.
    pub(crate) known: BTreeMap<TableName, Vec<Partition>>,
    /// The labels of enums from here on.
    pub(crate) labels: BTreeMap<TableName, Labels>,
}

impl Findings {
    pub(crate) fn is_empty(&self) -> bool {
        self.stops.is_empty() && self.doubts.is_empty() && self.known.is_empty() && self.labels.is_empty()
    }
}

/// A partition was emptied.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    pub(crate) table: TableName,
    /// By this transaction. If the log has it emptying the whole table, all is well.
    pub(crate) emptied_by: u32,
    /// The log tells that before here.
    pub(crate) due: Lsn,
    pub(crate) reason: StopReason,
}

/// The partitions of the followed tables, from look to look.
pub(crate) struct Watch {
    tables: Vec<Watched>,
    /// Whatever transaction is older was over at the last look.
    horizon: Option<u32>,
}

struct Watched {
    table: TableName,
    root: Oid,
    known: Option<Vec<Partition>>,
    emptied_by: Option<u32>,
}

impl Watch {
    /// `partitioned` are the tables that have partitions by now.
    pub(crate) fn new(tables: &[SourceTable], partitioned: &BTreeSet<Oid>) -> Self {
        let watched = tables.iter().filter(|table| partitioned.contains(&table.schema.native_id)).map(|table| {
            let Partitions { known, emptied_by } = match &table.schema.partitions {
                None => {
                    let root = table.schema.native_id;
                    return Watched { table: table.name.clone(), root, known: None, emptied_by: None };
                }
                Some(partitions) => partitions.clone(),
            };
            Watched { table: table.name.clone(), root: table.schema.native_id, known: Some(known), emptied_by }
        });
        Self { tables: watched.collect(), horizon: None }
    }

    /// What became of partitions since the last look, or since the rows were read.
    pub(crate) async fn look(&mut self, client: &Client) -> Result<Findings> {
        const NOW: &str =
            "SELECT (pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::text::numeric % 4294967296)::int8";
        const LOG_END: &str = "SELECT pg_catalog.pg_current_wal_insert_lsn()::text";
        let mut findings = Findings::default();
        if self.tables.is_empty() {
            return Ok(findings);
        }
        // Before the catalog is read: who is over by then has left what it did there.
        let row = client.query_one(NOW, &[]).await.map_err(failed)?;
        let horizon = u32::try_from(row.try_get::<_, i64>(0).map_err(failed)?).unwrap_or_default();
        let roots: Vec<Oid> = self.tables.iter().map(|watched| watched.root).collect();
        let mut tables = beneath(client, &roots).await?;
        let row = client.query_one(LOG_END, &[]).await.map_err(failed)?;
        let due: Lsn = row
            .try_get::<_, &str>(0)
            .map_err(failed)?
            .parse()
            .map_err(|error| Error::with_source(ErrorKind::Corrupt, "the server's log has no position", error))?;
        let mut looked_at = Vec::with_capacity(self.tables.len());
        for watched in &self.tables {
            let now = tables.remove(&watched.root).unwrap_or_default();
            let known: Vec<Partition> = now.iter().map(|present| present.partition).collect();
            if let Some(before) = watched.known.as_ref().filter(|before| **before != known) {
                watched.compare(client, before, &now, self.horizon, due, &mut findings).await?;
            }
            if watched.known.as_ref() != Some(&known) {
                findings.known.insert(watched.table.clone(), known.clone());
            }
            looked_at.push(known);
        }
        // A look that failed half-way is made again in full.
        for (watched, known) in self.tables.iter_mut().zip(looked_at) {
            watched.known = Some(known);
        }
        self.horizon = Some(horizon);
        Ok(findings)
    }
}

impl Watched {
    async fn compare(
        &self,
        client: &Client,
        before: &[Partition],
        now: &[Present],
        horizon: Option<u32>,
        due: Lsn,
        findings: &mut Findings,
    ) -> Result<()> {
        let table = &self.table;
        let known = |present: &Present| {
            let same = |before: &&Partition| {
                (before.native_id, before.attached_by) == (present.partition.native_id, present.partition.attached_by)
            };
            before.iter().find(same)
        };
        let mut gone = before.iter().filter(|before| {
            let still = |present: &Present| known(present).is_some_and(|known| known.native_id == before.native_id);
            before.file != 0 && !now.iter().any(still)
        });
        if let Some(gone) = gone.next() {
            let detail = format!("its partition {} was detached or dropped", name_of(client, gone.native_id).await?);
            findings.stops.insert(table.clone(), StopReason::rows_gone(table, detail));
        }
        for present in now.iter().filter(|present| present.partition.file != 0) {
            let emptied_by = present.changed_by;
            let told = self.emptied_by == Some(emptied_by);
            let doubt = |reason| Doubt { table: table.clone(), emptied_by, due, reason };
            // The first file of a table is called like it. This one was emptied since it came, alone or with the whole table: then
            // everything that was in it before is of no matter.
            let Partition { native_id, attached_by, file } = present.partition;
            let is_emptied = file != native_id && attached_by != emptied_by;
            match known(present) {
                None if is_emptied && told => {}
                None if is_emptied => {
                    let detail = format!("partition {} came and was truncated before calve saw it", present.name);
                    findings.doubts.push(doubt(StopReason::rows_unknown(table, detail)));
                }
                None if self.came_with_rows(client, present, now, &known).await? => {
                    let detail = format!(
                        "partition {} was attached with rows, or filled before calve saw it: the log does not say which of its rows it \
                         came with",
                        present.name
                    );
                    findings.stops.insert(table.clone(), StopReason::rows_unknown(table, detail));
                }
                Some(before) if before.file != present.partition.file => {
                    let rewritten = present.altered && rows_of(client, present, emptied_by).await?;
                    if told || rewritten || self.has_rows_of_before(client, present, horizon).await? {
                        continue;
                    }
                    let detail = format!(
                        "its partition {} was truncated (or rewritten while it held no rows of long ago)",
                        present.name
                    );
                    findings.doubts.push(doubt(StopReason::rows_gone(table, detail)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether a partition that is new may have rows that the log does not tell of under the table's name.
    async fn came_with_rows<'a>(
        &self,
        client: &Client,
        new: &'a Present,
        now: &'a [Present],
        known: &impl Fn(&Present) -> Option<&'a Partition>,
    ) -> Result<bool> {
        // Made as a partition of what was a part of the table already. Otherwise what is above it may have come with it.
        let mut at = new;
        let born = loop {
            if !at.born {
                break false;
            }
            let Some(parent) = now.iter().find(|parent| parent.partition.native_id == at.parent) else { break true };
            if known(parent).is_some() {
                break true;
            }
            at = parent;
        };
        if born || !new.readable {
            return Ok(!born);
        }
        let query = format!("SELECT EXISTS (SELECT FROM ONLY {})", qualified(&new.name));
        answer(client, &query).await
    }

    /// Whether rows are in the partition that were there at the last look.
    async fn has_rows_of_before(&self, client: &Client, present: &Present, horizon: Option<u32>) -> Result<bool> {
        let Some(horizon) = horizon.filter(|_| present.readable) else { return Ok(false) };
        let mut query = format!("SELECT EXISTS (SELECT FROM ONLY {} ", qualified(&present.name));
        let _ = write!(query, "WHERE pg_catalog.age(xmin) > pg_catalog.age('{horizon}'::pg_catalog.xid))");
        answer(client, &query).await
    }
}

/// Whether rows in the partition are of this transaction, as all are once it rewrote them.
async fn rows_of(client: &Client, present: &Present, xid: u32) -> Result<bool> {
    if !present.readable {
        return Ok(false);
    }
    let name = qualified(&present.name);
    answer(client, &format!("SELECT EXISTS (SELECT FROM ONLY {name} WHERE xmin = '{xid}'::pg_catalog.xid)")).await
}

async fn answer(client: &Client, query: &str) -> Result<bool> {
    let rows = client.simple_query(query).await;
    match rows {
        Ok(messages) => Ok(messages.iter().any(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0) == Some("t"),
            _ => false,
        })),
        // It was dropped meanwhile: the next look sees that.
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {
            Err(Error::with_source(ErrorKind::Retry, "a partition was dropped while it was looked at", error))
        }
        Err(error) => Err(failed(error)),
    }
}

async fn name_of(client: &Client, oid: Oid) -> Result<String> {
    const NAME: &str = "SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1";
    let Some(row) = client.query_opt(NAME, &[&oid]).await.map_err(failed)? else {
        return Ok(format!("with oid {oid}"));
    };
    let (schema, name): (&str, &str) = (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
    Ok(TableName::new(schema, name).to_string())
}

#[cfg(all(test, feature = "servers"))]
#[path = "partitions_tests.rs"]
mod tests;

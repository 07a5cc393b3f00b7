//! A table as the catalog of Postgres describes it, read once and in full: what follows from it is decided elsewhere.

use calve_core::{Column, Partition, Result, TableName};
use futures::{StreamExt, TryStreamExt, stream};
use tokio_postgres::types::Oid;
use tokio_postgres::{Client, Row};

use crate::catalog_type::{CatalogType, type_columns, type_joins};
use crate::error::sql_error;
use crate::labels::{self, Labels};
use crate::partitions;

/// `pg_class.relkind`, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Table,
    Partitioned,
    /// With the word for it.
    Other(&'static str),
}

/// `pg_class.relreplident`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// The primary key.
    Default,
    Index,
    Full,
    Nothing,
}

/// A primary key or a replica identity index.
#[derive(Clone, Debug)]
pub(crate) struct KeyIndex {
    pub(crate) name: String,
    /// Not deferrable.
    pub(crate) immediate: bool,
    pub(crate) valid: bool,
    /// Names of its key columns, in the index's order.
    pub(crate) columns: Vec<String>,
}

/// A partition that holds rows.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) oid: Oid,
    pub(crate) table: TableName,
    pub(crate) kind: Kind,
    pub(crate) logged: bool,
    pub(crate) identity: Identity,
    /// Names of the columns that its own identity logs; all where it is full.
    pub(crate) key: Vec<String>,
    pub(crate) readable: bool,
    pub(crate) estimated_rows: Option<u64>,
}

/// A relation of the source database.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "these are the catalog's own yes-or-no answers")]
pub(crate) struct Relation {
    pub(crate) oid: Oid,
    pub(crate) table: TableName,
    pub(crate) kind: Kind,
    /// Neither temporary nor unlogged.
    pub(crate) logged: bool,
    pub(crate) identity: Identity,
    /// Columns that the log carries and SELECT shows, in the table's order.
    pub(crate) columns: Vec<Column>,
    /// Names of generated columns, which are neither loaded nor streamed.
    pub(crate) generated: Vec<String>,
    /// Their numbers.
    pub(crate) left_out: Vec<u32>,
    pub(crate) primary_key: Option<KeyIndex>,
    pub(crate) identity_index: Option<KeyIndex>,
    /// Whether policies hide rows from the present user.
    pub(crate) rows_hidden: bool,
    pub(crate) readable: bool,
    pub(crate) schema_usable: bool,
    /// Whether the present user may do what only the owner may.
    pub(crate) owned: bool,
    pub(crate) owner: String,
    /// The present user.
    pub(crate) user: String,
    pub(crate) estimated_rows: Option<u64>,
    /// Of a partitioned table.
    pub(crate) leaves: Vec<Leaf>,
    /// All that is beneath a partitioned table, as the transaction's snapshot has it.
    pub(crate) partitions: Option<Vec<Partition>>,
    /// Those that its columns may hold.
    pub(crate) labels: Labels,
}

const RELATION: &str = "SELECT c.oid, c.relkind::text, c.relpersistence::text, c.relreplident::text, \
       pg_catalog.row_security_active(c.oid), \
       pg_catalog.has_table_privilege(c.oid, 'SELECT') OR NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a \
           WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' \
             AND NOT pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')), \
       pg_catalog.has_schema_privilege(n.oid, 'USAGE'), \
       pg_catalog.pg_has_role(c.relowner, 'USAGE'), pg_catalog.pg_get_userbyid(c.relowner)::text, c.reltuples::float8, \
       current_user::text \
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
 WHERE n.nspname = $1 AND c.relname = $2";

/// A NOT NULL constraint that was never validated (Postgres 18) promises nothing.
const COLUMNS: &str = concat!(
    "SELECT a.attname::text, a.attnum, a.attgenerated::text <> '', \
       a.attnotnull AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conrelid = a.attrelid \
           AND k.contype = 'n' AND NOT k.convalidated AND a.attnum = ANY (k.conkey)), ",
    type_columns!(),
    " FROM pg_catalog.pg_attribute a ",
    type_joins!(),
    " WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
);

const KEYS: &str = "SELECT x.relname::text, i.indisprimary, i.indisreplident, i.indimmediate, i.indisvalid, \
       ARRAY(SELECT a.attname::text FROM pg_catalog.unnest(i.indkey) WITH ORDINALITY part (attnum, place) \
             JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = part.attnum \
             WHERE part.place <= i.indnkeyatts ORDER BY part.place) \
  FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid \
 WHERE i.indrelid = $1 AND (i.indisprimary OR i.indisreplident)";

const LEAVES: &str = "SELECT c.oid, n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence::text, \
       c.relreplident::text, c.reltuples::float8, \
       pg_catalog.has_table_privilege(c.oid, 'SELECT') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') \
           AND NOT pg_catalog.row_security_active(c.oid), \
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_index i \
             CROSS JOIN pg_catalog.unnest(i.indkey) WITH ORDINALITY part (attnum, place) \
             JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = part.attnum \
             WHERE i.indrelid = c.oid AND part.place <= i.indnkeyatts \
               AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END \
             ORDER BY part.place) \
  FROM pg_catalog.pg_partition_tree($1::oid::regclass) tree \
  JOIN pg_catalog.pg_class c ON c.oid = tree.relid \
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
 WHERE tree.isleaf ORDER BY c.oid";

/// Questions on the way at once: a thousand tables must not cost a thousand round trips.
const PIPELINED: usize = 32;

impl Relation {
    /// Reads relations, one for each name.
    pub(crate) async fn read_all(client: &Client, tables: &[TableName]) -> Result<Vec<Option<Self>>> {
        let reads: Vec<_> = tables.iter().map(|table| Self::read(client, table)).collect();
        stream::iter(reads).buffered(PIPELINED).try_collect().await
    }

    /// Reads a relation; none where nothing has this name. Needs no privilege.
    pub(crate) async fn read(client: &Client, table: &TableName) -> Result<Option<Self>> {
        let failed = |error: tokio_postgres::Error| sql_error(format_args!("cannot describe table {table}"), &error);
        let Some(row) = client.query_opt(RELATION, &[&table.schema, &table.name]).await.map_err(failed)? else {
            return Ok(None);
        };
        let oid: Oid = row.try_get(0).map_err(failed)?;
        let mut relation = Self::from_row(&row, table.clone()).map_err(failed)?;
        for row in client.query(COLUMNS, &[&oid]).await.map_err(failed)? {
            let (column, generated) = column(&row).map_err(failed)?;
            if generated {
                relation.left_out.push(column.id);
                relation.generated.push(column.name);
            } else {
                relation.columns.push(column);
            }
        }
        for row in client.query(KEYS, &[&oid]).await.map_err(failed)? {
            let key = KeyIndex {
                name: row.try_get(0).map_err(failed)?,
                immediate: row.try_get(3).map_err(failed)?,
                valid: row.try_get(4).map_err(failed)?,
                columns: row.try_get(5).map_err(failed)?,
            };
            if row.try_get(1).map_err(failed)? {
                relation.primary_key = Some(key.clone());
            }
            if row.try_get(2).map_err(failed)? {
                relation.identity_index = Some(key);
            }
        }
        relation.labels = labels::read(client, oid).await?;
        if relation.kind == Kind::Partitioned {
            let rows = client.query(LEAVES, &[&oid]).await.map_err(failed)?;
            relation.leaves = rows.iter().map(leaf).collect::<std::result::Result<_, _>>().map_err(failed)?;
            relation.estimated_rows = relation.leaves.iter().map(|leaf| leaf.estimated_rows).sum();
            relation.partitions = Some(partitions::read(client, oid).await?);
        }
        Ok(Some(relation))
    }

    fn from_row(row: &Row, table: TableName) -> std::result::Result<Self, tokio_postgres::Error> {
        Ok(Self {
            oid: row.try_get(0)?,
            table,
            kind: kind(row.try_get(1)?),
            logged: row.try_get::<_, &str>(2)? == "p",
            identity: identity(row.try_get(3)?),
            rows_hidden: row.try_get(4)?,
            readable: row.try_get(5)?,
            schema_usable: row.try_get(6)?,
            owned: row.try_get(7)?,
            owner: row.try_get(8)?,
            estimated_rows: estimate(row.try_get(9)?),
            user: row.try_get(10)?,
            columns: Vec::new(),
            generated: Vec::new(),
            left_out: Vec::new(),
            primary_key: None,
            identity_index: None,
            leaves: Vec::new(),
            partitions: None,
            labels: Labels::new(),
        })
    }
}

fn column(row: &Row) -> std::result::Result<(Column, bool), tokio_postgres::Error> {
    let (ty, native) = CatalogType::from_row(row, 4)?.into_types();
    // Columns of users are counted from 1.
    let id = u32::try_from(row.try_get::<_, i16>(1)?).unwrap_or(0);
    let not_null: bool = row.try_get(3)?;
    let usage = calve_core::ColumnUse::Values;
    Ok((Column { id, name: row.try_get(0)?, ty, nullable: !not_null, native, usage }, row.try_get(2)?))
}

fn leaf(row: &Row) -> std::result::Result<Leaf, tokio_postgres::Error> {
    Ok(Leaf {
        oid: row.try_get(0)?,
        table: TableName::new(row.try_get::<_, &str>(1)?, row.try_get::<_, &str>(2)?),
        kind: kind(row.try_get(3)?),
        logged: row.try_get::<_, &str>(4)? == "p",
        identity: identity(row.try_get(5)?),
        estimated_rows: estimate(row.try_get(6)?),
        readable: row.try_get(7)?,
        key: row.try_get(8)?,
    })
}

fn kind(relkind: &str) -> Kind {
    match relkind {
        "r" => Kind::Table,
        "p" => Kind::Partitioned,
        "v" => Kind::Other("a view"),
        "m" => Kind::Other("a materialized view"),
        "f" => Kind::Other("a foreign table"),
        "S" => Kind::Other("a sequence"),
        "i" | "I" => Kind::Other("an index"),
        "c" => Kind::Other("a composite type"),
        _ => Kind::Other("no table"),
    }
}

fn identity(relreplident: &str) -> Identity {
    match relreplident {
        "d" => Identity::Default,
        "i" => Identity::Index,
        "f" => Identity::Full,
        _ => Identity::Nothing,
    }
}

/// -1 stands for "never counted".
fn estimate(reltuples: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate, checked to be positive")]
    (reltuples >= 0.0).then_some(reltuples as u64)
}

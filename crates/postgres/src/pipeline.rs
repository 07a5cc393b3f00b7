//! What a pipeline has at its source, looked at and removed from outside: for `status`, `drop` and table patterns.

use std::fmt;

use calve_core::{Error, ErrorKind, Result, TableName};

use crate::config::ConnectConfig;
use crate::error::{ServerError, code, sql_error};
use crate::publication;
use crate::slot::{self, SlotStatus};
use crate::source::{PostgresSettings, current_lsn};

/// The slot of a pipeline and the end of the log. An invalidated slot is described, not an error; one that does not exist
/// has [`SlotStatus::exists`] false.
pub async fn slot_status(settings: &PostgresSettings) -> Result<SlotStatus> {
    let client = settings.connect.connect_sql().await?;
    match slot::status(&client, &settings.connect, &settings.slot).await? {
        Some(status) => Ok(status),
        None => Ok(SlotStatus::missing(current_lsn(&client).await?)),
    }
}

/// Something that [`drop_pipeline`] did or left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The slot is gone.
    Slot(String),
    /// There was no such slot.
    NoSlot(String),
    /// The publication is gone.
    Publication(String),
    /// There is none, or one that calve did not make and therefore leaves.
    KeptPublication(String),
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(name) => write!(f, "removed replication slot {name}"),
            Self::NoSlot(name) => write!(f, "there is no replication slot {name}"),
            Self::Publication(name) => write!(f, "removed publication {name}"),
            Self::KeptPublication(name) => {
                write!(f, "left publication {name}: there is none, or calve did not make it")
            }
        }
    }
}

/// Removes the pipeline's slot, and its publication if calve made it. The slot comes first: it is what fills the disk.
pub async fn drop_pipeline(settings: &PostgresSettings) -> Result<Vec<Dropped>> {
    let client = settings.connect.connect_sql().await?;
    let (slot, publication) = (settings.slot.clone(), settings.publication.clone());
    let mut dropped = Vec::new();
    // Refuses a slot of the same name that cannot be this pipeline's.
    if slot::status(&client, &settings.connect, &slot).await?.is_some() {
        match client.execute("SELECT pg_drop_replication_slot($1)", &[&slot]).await {
            Ok(_) => dropped.push(Dropped::Slot(slot)),
            Err(error) => return Err(drop_error(&slot, &error)),
        }
    } else {
        dropped.push(Dropped::NoSlot(slot));
    }
    dropped.push(if publication::drop(&client, &publication).await? {
        Dropped::Publication(publication)
    } else {
        Dropped::KeptPublication(publication)
    });
    Ok(dropped)
}

fn drop_error(slot: &str, error: &tokio_postgres::Error) -> Error {
    match ServerError::from_sql(error) {
        Some(server) if server.code == code::OBJECT_IN_USE => Error::new(
            ErrorKind::Conflict,
            format!("cannot remove replication slot {slot}: {server}; stop the calve that reads it first"),
        ),
        _ => sql_error(format!("cannot remove replication slot {slot}"), error),
    }
}

/// Every table that could be replicated: ordinary and partitioned ones outside the system's schemas, partitions not counted.
/// Of those `named`, whatever relation has the name: `check` says why it cannot be replicated. In order of name.
pub async fn list_tables(connect: &ConnectConfig, named: &[TableName]) -> Result<Vec<TableName>> {
    const QUERY: &str = "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE (c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition \
                AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_') \
            OR (c.relkind IN ('r', 'p', 'v', 'm', 'f') \
                AND (n.nspname::text, c.relname::text) IN (SELECT * FROM unnest($1::text[], $2::text[]))) \
         ORDER BY n.nspname COLLATE \"C\", c.relname COLLATE \"C\"";
    let client = connect.connect_sql().await?;
    let failed = |error: tokio_postgres::Error| sql_error("cannot list the tables of the database", &error);
    let (schemas, tables): (Vec<&str>, Vec<&str>) = named.iter().map(|t| (t.schema.as_str(), t.name.as_str())).unzip();
    let rows = client.query(QUERY, &[&schemas, &tables]).await.map_err(failed)?;
    rows.iter()
        .map(|row| {
            let (schema, name): (&str, &str) = (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
            Ok(TableName::new(schema, name))
        })
        .collect()
}

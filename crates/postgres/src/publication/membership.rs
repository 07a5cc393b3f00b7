//! The memberships of the followed tables at one moment.

use std::collections::{BTreeMap, BTreeSet};

use calve_core::{Error, ErrorKind, Result, StopReason, TableName};
use tokio_postgres::Client;
use tokio_postgres::types::Oid;

use super::catalog::{Followed, followed, read};
use super::gap_reason;
use crate::sql::identifier;

/// The memberships at one moment, to be compared with those of a later one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    oid: Oid,
    version: String,
    tables: Vec<Followed>,
}

impl Membership {
    /// The memberships as they are now. A publication that is gone or sends less than everything is an error.
    pub(crate) async fn read(client: &Client, name: &str, tables: &[TableName]) -> Result<Self> {
        let publication = read(client, name).await?.ok_or_else(|| {
            Error::new(
                ErrorKind::SourceGone,
                format!(
                    "publication {name} was dropped: changes are missing from the stream; run `calve reload --all`, which makes it \
                     anew, after SELECT pg_drop_replication_slot(..) of the pipeline's slot"
                ),
            )
        })?;
        if !publication.complete {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "publication {name} does not send every kind of change any more: run ALTER PUBLICATION {} SET (publish = \
                     'insert, update, delete, truncate'), then reload the tables that were changed meanwhile",
                    identifier(name)
                ),
            ));
        }
        let mut followed = followed(client, &publication, tables).await?;
        let filtered: BTreeSet<Oid> = publication.members.values().filter(|m| m.filtered).map(|m| m.row).collect();
        for table in &mut followed {
            table.rows.retain(|row| !filtered.contains(row));
        }
        Ok(Self { oid: publication.oid, version: publication.version, tables: followed })
    }

    /// The tables that may not have been carried all the time between `self` and `later`. Those that have another name, or are
    /// gone, are [`Self::missing`].
    pub(crate) fn gaps(&self, later: &Self, name: &str) -> BTreeMap<TableName, StopReason> {
        let altered = (self.oid, &self.version) != (later.oid, &later.version);
        let mut gaps = BTreeMap::new();
        for before in &self.tables {
            match later.tables.iter().find(|now| now.oid == before.oid) {
                Some(now) if altered || before.rows.is_disjoint(&now.rows) => {
                    gaps.insert(before.table.clone(), gap_reason(&before.table, name));
                }
                Some(_) | None => {}
            }
        }
        gaps
    }

    /// The tables of `self` that do not go by their name in `later`.
    pub(crate) fn missing(&self, later: &Self) -> BTreeMap<Oid, TableName> {
        let gone = self.tables.iter().filter(|before| !later.tables.iter().any(|now| now.oid == before.oid));
        gone.map(|before| (before.oid, before.table.clone())).collect()
    }

    /// Takes tables out of further comparisons.
    pub(crate) fn forget(&mut self, tables: &BTreeMap<TableName, StopReason>) {
        self.tables.retain(|followed| !tables.contains_key(&followed.table));
    }

    /// The partitioned tables among them.
    pub(crate) fn partitioned(&self) -> BTreeSet<Oid> {
        self.tables.iter().filter(|followed| followed.partitioned).map(|followed| followed.oid).collect()
    }

    /// The oid that goes by this name.
    pub(crate) fn oid_of(&self, table: &TableName) -> Option<Oid> {
        self.tables.iter().find(|followed| followed.table == *table).map(|followed| followed.oid)
    }
}

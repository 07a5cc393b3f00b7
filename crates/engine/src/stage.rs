//! Step 1 of the protocol, on the committer's side: in which manner each table's rows become files, and where these wait for their
//! intent.
//!
//! Rows that lack values which their table has are staged on the table as it stands, and on the chunks that were staged on it
//! before. Where the table is being loaded they wait for the load as rows. So does a TRUNCATE of a table that keeps its rows as
//! deleted ones.

use std::sync::Arc;

use calve_core::{Error, ErrorKind, Ground, Onto, StagedDelta, TableIndex, TableName, Written};

use crate::ahead::{Ahead, Manner, StagedTables, Stager};
use crate::assemble::TableRows;
use crate::commit::{Committer, Halt, Step};
use crate::fold::Inserts;
use crate::ledger::{Entry, Standing, Waiting, files_of};
use crate::policy::Policy;
use crate::settings::{Mutation, Settings};
use crate::weight::Weight;

impl<'a> Committer<'a> {
    pub(crate) fn stager(&self) -> Stager<'a> {
        let names = self.ledger.entries.iter().map(|entry| entry.name.clone()).collect();
        let Settings { commit_parallelism, values, .. } = self.settings;
        Stager { writer: self.writer, names, parallelism: *commit_parallelism, rules: self.ledger.rules, values }
    }

    /// How each table is staged now.
    pub(crate) fn manners(&self) -> Vec<Manner> {
        self.ledger.entries.iter().map(|entry| self.manner(entry)).collect()
    }

    fn manner(&self, entry: &Entry) -> Manner {
        let schema = entry.present_schema();
        // A log has every insert as a row of its own.
        // Partitions that go without being in the log are noticed late, and by then their keys may have come again.
        let may_go =
            schema.partitions.is_some() && self.settings.policies(&entry.name).drop_partition == Policy::Ignore;
        let may_be_there = entry.settles.is_some() || ((schema.keeps_gone || may_go) && !schema.keeps_log());
        let trusted = !may_be_there || self.ledger.rules.broken(Mutation::TrustedInserts);
        Manner {
            stopped: entry.standing == Standing::Stopped,
            onto: if entry.standing == Standing::Loading { Onto::Load } else { Onto::Table },
            inserts: if trusted { Inserts::AreNew } else { Inserts::MayExist },
            ground: Ground { base: entry.base, staged: Vec::new() },
            schema: Arc::clone(schema),
        }
    }

    /// Step 1. The files wait in the ledger; so do rows that lack values of a table which is not there yet.
    pub(crate) async fn stage(&mut self, tables: Vec<TableRows>, mut weight: Weight, ahead: &Ahead<'_>) -> Step<()> {
        self.reshape(&tables)?;
        let mut manners = self.manners();
        let mut now = Vec::with_capacity(tables.len());
        for (index, rows) in tables {
            let entry = &mut self.ledger.entries[index.0];
            let lacks = !rows.unchanged().is_empty() || (rows.retires_all() && entry.settles.is_none());
            if lacks && entry.standing == Standing::Loading {
                if entry.settles.is_some() {
                    // Its rows are of no one position, so that none of them is what an update found.
                    let what = format!("an update of {} left values alone while it is loaded in pieces", entry.name);
                    return Err(Error::new(ErrorKind::Bug, what).into());
                }
                let weight = weight.split(rows.bytes());
                entry.staged.push(Waiting::Rows(rows, weight));
                continue;
            }
            if lacks && !self.ledger.rules.broken(Mutation::LookUpBelow) {
                manners[index.0].ground.staged = entry.staged.iter().filter_map(Waiting::delta).cloned().collect();
            }
            now.push((index, rows));
        }
        let staged = ahead.stage(now, &manners).await?;
        drop(weight);
        self.keep(staged).await
    }

    /// Puts staged files into the ledger. Of rows that came and went there are none, and yet the table has to say that it is beyond
    /// them: what another process that read some of them staged on the table as it was must not be put on it any more.
    pub(crate) async fn keep(&mut self, staged: StagedTables) -> Step<()> {
        for (index, written) in staged {
            let entry = &mut self.ledger.entries[index.0];
            let delta = match written {
                Written::Delta(delta) => delta,
                Written::Stops(_) if entry.standing == Standing::Stopped => continue,
                Written::Stops(reason) => {
                    self.stop(index, reason).await?;
                    continue;
                }
            };
            // What was staged ahead may be of a table that was stopped since.
            let unsaid = entry.staged.is_empty() && !self.ledger.rules.broken(Mutation::Unstamped);
            if entry.standing == Standing::Stopped || (delta.is_empty() && !unsaid) {
                self.writer.discard(&[delta]).await;
                continue;
            }
            if delta.replace {
                // What came before in this checkpoint is truncated away before anybody saw it.
                let superseded = files_of(std::mem::take(&mut entry.staged));
                self.writer.discard(&superseded).await;
            }
            entry.staged.push(Waiting::Files(delta));
        }
        Ok(())
    }

    /// Changes of a table that is there by now, as files in their order, each looked up on those before it. Where a row is
    /// missing the table is stopped, and nothing comes.
    pub(crate) async fn staged_by_now(
        &mut self,
        index: usize,
        waiting: Vec<Waiting>,
    ) -> Step<Option<Vec<StagedDelta>>> {
        let mut deltas: Vec<StagedDelta> = Vec::with_capacity(waiting.len());
        let mut waiting = waiting.into_iter();
        while let Some(change) = waiting.next() {
            let delta = match change {
                Waiting::Files(delta) => delta,
                Waiting::Rows(rows, _weight) => {
                    let mut manners = self.manners();
                    if !self.ledger.rules.broken(Mutation::LookUpBelow) {
                        manners[index].ground.staged.clone_from(&deltas);
                    }
                    let staged = self.stager().stage(vec![(TableIndex(index), rows)], &manners).await?;
                    match staged.into_iter().next() {
                        Some((_, Written::Delta(delta))) => delta,
                        Some((_, Written::Stops(reason))) => {
                            deltas.extend(files_of(waiting));
                            self.writer.discard(&deltas).await;
                            self.stop(TableIndex(index), reason).await?;
                            return Ok(None);
                        }
                        None => continue,
                    }
                }
            };
            if delta.replace {
                let superseded = std::mem::take(&mut deltas);
                self.writer.discard(&superseded).await;
            }
            if delta.is_empty() && !deltas.is_empty() {
                self.writer.discard(&[delta]).await;
            } else {
                deltas.push(delta);
            }
        }
        Ok(Some(deltas))
    }

    /// Notes the schemas that rows come with. A load is of one schema: where the table has another before the load is
    /// published, it begins anew.
    fn reshape(&mut self, tables: &[TableRows]) -> Step<()> {
        for (index, rows) in tables {
            let entry = &mut self.ledger.entries[index.0];
            // Rows of a table that was stopped meanwhile are not staged, so their schema is nobody's.
            let stopped = entry.standing == Standing::Stopped;
            if stopped || entry.present_schema() == rows.schema() {
                continue;
            }
            if entry.standing == Standing::Loading && !entry.schema.has_rows_of(rows.schema()) {
                return Err(altered_while_loading(&entry.name));
            }
            entry.reshaped = Some(Arc::clone(rows.schema()));
        }
        Ok(())
    }

    /// The chunks staged of a transaction that will come again.
    pub(crate) async fn abandon(&mut self) {
        for entry in &mut self.ledger.entries {
            entry.reshaped = None;
            let deltas = files_of(std::mem::take(&mut entry.staged));
            if !deltas.is_empty() {
                self.writer.discard(&deltas).await;
            }
        }
    }
}

pub(crate) fn altered_while_loading(table: &TableName) -> Halt {
    let message = format!("table {table} was altered while it was loaded, so its load begins anew");
    Error::new(ErrorKind::Retry, message).into()
}

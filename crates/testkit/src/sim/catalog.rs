//! The lake's port over [`LakeState`](super::lake::LakeState): each call a protocol step that faults can strike.

use std::collections::BTreeSet;

use async_trait::async_trait;
use calve_core::{
    CommitReceipt, Error, ErrorKind, Lake, LakeTable, LakeVersion, Result, TableCommit, TableName, TableSchema,
};

use super::faults::StepKind;
use super::lake::Refused;
use super::world::{Delayed, Process};
use super::writer::prefix;

/// The port.
pub(crate) struct SimLake(pub(crate) Process);

#[async_trait]
impl Lake for SimLake {
    async fn load(&self, table: &TableName) -> Result<Option<LakeTable>> {
        self.0.step(StepKind::Read, || format!("load {table}"), |w| Ok(w.lake.describe(table))).await
    }

    async fn create(&self, schema: &TableSchema) -> Result<LakeTable> {
        let table = &schema.table;
        self.0
            .step(
                StepKind::Write,
                || format!("create {table}"),
                |w| {
                    if !w.lake.create(schema) {
                        return Err(Error::new(
                            ErrorKind::Retry,
                            format!("table {table} exists already; it is read again"),
                        ));
                    }
                    Ok(w.lake.describe(table).expect("it was just created"))
                },
            )
            .await
    }

    async fn commit(&self, table: &TableName, version: &LakeVersion, commit: &TableCommit) -> Result<CommitReceipt> {
        let what = || {
            let stamp = commit.stamp.as_ref().map_or("properties".to_owned(), |s| format!("stamp {}", s.position));
            let complete =
                commit.complete_to.as_ref().map_or(String::new(), |c| format!(", complete to {}", c.position));
            let stop = match &commit.stop {
                None => "",
                Some(None) => ", running again",
                Some(Some(_)) => ", stopped",
            };
            format!("commit {table} at {}: {stamp}{complete}{stop}", version.0)
        };
        self.0
            .step_or_delay(
                StepKind::Commit,
                what,
                |w| match w.commit(table, version, commit) {
                    Ok(receipt) => Ok(receipt),
                    Err(refused) => Err(refuse(table, refused)),
                },
                |w, lands_at_step| {
                    w.wire.push(Delayed {
                        sender: self.0.number,
                        lands_at_step,
                        table: table.clone(),
                        version: version.clone(),
                        commit: commit.clone(),
                    });
                },
            )
            .await
    }

    async fn unreferenced_files(&self, table: &TableName, keep: &BTreeSet<String>) -> Result<Vec<String>> {
        let own = prefix(table, self.0.number);
        self.0
            .step(
                StepKind::Read,
                || format!("list files of {table}"),
                |w| {
                    let all = format!("{}/run-", table.name);
                    let old = w.disk.list(&all).filter(|path| !path.starts_with(&own) && !keep.contains(*path));
                    Ok(old.filter(|path| !w.lake.references(path)).map(str::to_owned).collect())
                },
            )
            .await
    }

    async fn delete_unreferenced(&self, table: &TableName, files: &[String]) -> Result<usize> {
        self.0
            .step(
                StepKind::Write,
                || format!("delete {} files of {table}", files.len()),
                |w| {
                    let mut gone = 0;
                    for path in files {
                        if !w.lake.references(path) {
                            gone += usize::from(w.disk.remove(path));
                        }
                    }
                    w.check_files();
                    Ok(gone)
                },
            )
            .await
    }
}

fn refuse(table: &TableName, refused: Refused) -> Error {
    let what = match refused {
        Refused::NoSuchTable => "does not exist",
        Refused::VersionMoved => "has moved on since it was read",
    };
    Error::new(ErrorKind::Retry, format!("commit refused: table {table} {what}; it is read again"))
}

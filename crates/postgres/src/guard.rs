//! Watches the publication, the partitions and the labels of enums while the stream runs. The stream does not show that a table was taken
//! out of the publication, nor that a partition came with rows or went, or a label was renamed; the catalog does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calve_core::{ErrorKind, Result, StopReason, TableName};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_postgres::types::Oid;

use crate::config::ConnectConfig;
use crate::labels;
use crate::partitions::{self, Findings};
use crate::publication::{self, Membership};

/// How soon an edit by hand is noticed, at the latest.
const INTERVAL: Duration = Duration::from_secs(5);

/// A task with a SQL connection of its own.
pub(crate) struct Guard {
    findings: mpsc::Receiver<Result<Findings>>,
    task: JoinHandle<()>,
}

impl Guard {
    /// Compares the publication with what it was at the start of the stream, and partitions and labels with what they were, from now on.
    pub(crate) fn spawn(
        connect: ConnectConfig,
        publication: String,
        tables: Vec<TableName>,
        start: Membership,
        partitions: partitions::Watch,
        labels: labels::Watch,
    ) -> Self {
        let (sender, findings) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            let before = start;
            let mut watch =
                Watch { connect, publication, tables, before, away: BTreeSet::new(), partitions, labels, client: None };
            loop {
                tokio::time::sleep(INTERVAL).await;
                match watch.look().await {
                    Ok(found) if found.is_empty() => {}
                    // The database may be down for a while; the stream notices that too.
                    Err(error) if error.kind() == ErrorKind::Retry => {
                        tracing::debug!(%error, "the publication could not be looked at");
                    }
                    finding => {
                        let last = finding.is_err();
                        if sender.send(finding).await.is_err() || last {
                            return;
                        }
                    }
                }
            }
        });
        Self { findings, task }
    }

    /// What was found since the last call. Never waits.
    pub(crate) fn finding(&mut self) -> Option<Result<Findings>> {
        self.findings.try_recv().ok()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Watch {
    connect: ConnectConfig,
    publication: String,
    tables: Vec<TableName>,
    before: Membership,
    /// Tables that had another name at the last look.
    away: BTreeSet<Oid>,
    partitions: partitions::Watch,
    labels: labels::Watch,
    client: Option<Client>,
}

impl Watch {
    async fn look(&mut self) -> Result<Findings> {
        let client = match self.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.connect.connect_sql().await?,
        };
        let now = Membership::read(&client, &self.publication, &self.tables).await?;
        let mut gaps = self.before.gaps(&now, &self.publication);
        gaps.extend(self.gone(&client, &now).await?);
        let mut found = self.partitions.look(&client).await?;
        self.labels.look(&client, &mut found).await?;
        self.client = Some(client);
        self.before.forget(&gaps);
        found.stops.extend(gaps);
        Ok(found)
    }

    /// The tables that were dropped, or have had another name since the last look at least. One that has its name back by then
    /// has missed nothing: rows written to it meanwhile are in the log under the other name, and stop it there.
    async fn gone(&mut self, client: &Client, now: &Membership) -> Result<BTreeMap<TableName, StopReason>> {
        let missing = self.before.missing(now);
        let mut gone = BTreeMap::new();
        if missing.is_empty() {
            self.away.clear();
            return Ok(gone);
        }
        let names = publication::names_now(client, missing.keys().copied()).await?;
        for (oid, table) in &missing {
            let detail = match names.get(oid) {
                None => "the table was dropped in Postgres".to_owned(),
                Some(name) if self.away.contains(oid) => format!("the table was renamed to {name} in Postgres"),
                Some(_) => continue,
            };
            gone.insert(table.clone(), publication::missing(table, detail));
        }
        self.away = names.into_keys().collect();
        Ok(gone)
    }
}

#[cfg(all(test, feature = "servers"))]
mod tests {
    use calve_testkit::servers::Postgres;

    use super::*;

    /// A table, its state, and a part of what is said of it.
    type Missed = (&'static str, &'static str, &'static str);

    /// What a look finds after each of these statements.
    const LOOKS: &[(&str, &[Missed])] = &[
        ("ALTER TABLE a RENAME TO other", &[]),
        ("ALTER TABLE other RENAME TO a", &[]),
        ("ALTER TABLE a RENAME TO other", &[]),
        ("ALTER TABLE b RENAME TO x", &[("public.a", "dropped", "was renamed to public.other")]),
        ("ALTER TABLE x RENAME TO b; ALTER TABLE c RENAME TO x", &[]),
        ("DROP TABLE b", &[("public.b", "dropped", "was dropped"), ("public.c", "dropped", "renamed to public.x")]),
        ("ALTER PUBLICATION p DROP TABLE d", &[("public.d", "log lost", "altered by hand")]),
        ("SELECT 1", &[]),
    ];

    #[tokio::test(flavor = "multi_thread")]
    async fn tables_are_missed_when_they_are_gone_for_good() {
        let database = Postgres::shared(17).unwrap().create_database("guard").unwrap();
        let connect = ConnectConfig::parse(&database.url("postgres").unwrap()).unwrap();
        let client = connect.connect_sql().await.unwrap();
        let tables: Vec<TableName> = ["a", "b", "c", "d"].iter().map(|name| TableName::new("public", *name)).collect();
        for table in &tables {
            client.batch_execute(&format!("CREATE TABLE {table} (id int PRIMARY KEY)")).await.unwrap();
        }
        client.batch_execute("SET search_path = public; CREATE PUBLICATION p FOR TABLE a, b, c, d").await.unwrap();
        let before = Membership::read(&client, "p", &tables).await.unwrap();
        let partitions = partitions::Watch::new(&[], &BTreeSet::new());
        let (publication, away) = ("p".into(), BTreeSet::new());
        let labels = labels::Watch::new(&[]);
        let mut watch = Watch { connect, publication, tables, before, away, partitions, labels, client: None };
        for (statement, expected) in LOOKS {
            client.batch_execute(statement).await.unwrap();
            let found = watch.look().await.unwrap().stops;
            let found: Vec<_> = found.iter().map(|(table, reason)| (table.to_string(), reason)).collect();
            assert_eq!(found.len(), expected.len(), "{statement}: {found:?}");
            for ((table, reason), (expected_table, state, detail)) in found.iter().zip(*expected) {
                assert_eq!((table.as_str(), reason.state.as_str()), (*expected_table, *state), "{statement}");
                assert!(reason.detail.contains(detail), "{statement}: {}", reason.detail);
            }
        }
    }
}

//! Watches the publication while the stream runs. The stream does not show that a table was taken out of it; the catalog does.

use std::collections::BTreeMap;
use std::time::Duration;

use calve_core::{ErrorKind, Result, StopReason, TableName};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::config::ConnectConfig;
use crate::publication::Membership;

/// How soon an edit by hand is noticed, at the latest.
const INTERVAL: Duration = Duration::from_secs(5);

/// A task with a SQL connection of its own.
pub(crate) struct Guard {
    findings: mpsc::Receiver<Result<BTreeMap<TableName, StopReason>>>,
    task: JoinHandle<()>,
}

impl Guard {
    /// Compares the publication with what it was at the start of the stream, from now on.
    pub(crate) fn spawn(
        connect: ConnectConfig,
        publication: String,
        tables: Vec<TableName>,
        start: Membership,
    ) -> Self {
        let (sender, findings) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            let mut watch = Watch { connect, publication, tables, before: start, client: None };
            loop {
                tokio::time::sleep(INTERVAL).await;
                match watch.look().await {
                    Ok(gaps) if gaps.is_empty() => {}
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
    pub(crate) fn finding(&mut self) -> Option<Result<BTreeMap<TableName, StopReason>>> {
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
    client: Option<Client>,
}

impl Watch {
    async fn look(&mut self) -> Result<BTreeMap<TableName, StopReason>> {
        let client = match self.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.connect.connect_sql().await?,
        };
        let now = Membership::read(&client, &self.publication, &self.tables).await?;
        self.client = Some(client);
        let gaps = self.before.gaps(&now, &self.publication);
        self.before.forget(&gaps);
        Ok(gaps)
    }
}

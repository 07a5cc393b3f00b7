//! What is still to be read, shared by the connections that read it. Pieces of a table come one after the other, while
//! others are read already.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use calve_core::TableName;
use tokio::sync::Notify;

use super::cut::{Bound, Range};
use super::table::LoadTable;

/// Something to do for one connection.
#[derive(Debug)]
pub(super) enum Job {
    /// Find the next piece.
    Cut(Arc<LoadTable>, Option<Bound>),
    /// Read a piece.
    Read(Arc<LoadTable>, Range),
}

impl Job {
    pub(super) fn table(&self) -> &Arc<LoadTable> {
        match self {
            Self::Cut(table, _) | Self::Read(table, _) => table,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Jobs of each table that are waiting or being done; absent once none is left.
    unfinished: BTreeMap<TableName, usize>,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

impl Queue {
    pub(super) fn new(tables: &[Arc<LoadTable>]) -> Self {
        let queue = Self::default();
        for table in tables {
            queue.with(|state| {
                // Those that are merged are one, and done when all of them are.
                *state.unfinished.entry(table.schema.table.clone()).or_default() += 1;
                state.jobs.push_back(Job::Cut(Arc::clone(table), None));
            });
        }
        queue
    }

    /// A panic elsewhere leaves the state as it was between two changes.
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The next job; waits while others may still bring one. None when all is done.
    pub(super) async fn next(&self) -> Option<Job> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            let (job, over) = self.with(|state| (state.jobs.pop_front(), state.unfinished.is_empty()));
            if job.is_some() || over {
                return job;
            }
            changed.await;
        }
    }

    /// Ends a job that brought others, which come before all that waits: a table is finished before the next one is begun.
    /// True where it was the table's last.
    pub(super) fn finish(&self, table: &TableName, brought: Vec<Job>) -> bool {
        let last = self.with(|state| {
            // A table that was given up takes no more.
            let Some(unfinished) = state.unfinished.get_mut(table) else { return false };
            *unfinished = (*unfinished + brought.len()).saturating_sub(1);
            let last = *unfinished == 0;
            for job in brought.into_iter().rev() {
                state.jobs.push_front(job);
            }
            if last {
                state.unfinished.remove(table);
            }
            last
        });
        self.changed.notify_waiters();
        last
    }

    /// Leaves out what is left of a table. False where somebody did so before.
    pub(super) fn give_up(&self, table: &TableName) -> bool {
        let first = self.with(|state| {
            state.jobs.retain(|job| job.table().schema.table != *table);
            state.unfinished.remove(table).is_some()
        });
        self.changed.notify_waiters();
        first
    }
}

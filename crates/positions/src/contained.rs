//! sled on a thread of its own, so that what it does over damaged files stays there.
//!
//! sled 0.34 meets some damage with a panic and some, when a thread of its own panics, with a wait that never ends. Here
//! both become an answer: a panic ends the thread, and an answer that does not come in time is given up on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use crate::store::{Change, Contents, Store, StoreError};

/// A healthy store answers within milliseconds; a minute leaves room for a disk that is busy elsewhere.
const PATIENCE: Duration = Duration::from_mins(1);

type Job = Box<dyn FnOnce(&Store) + Send>;

/// A [`Store`] behind a wall.
pub(crate) struct ContainedStore {
    jobs: Option<SyncSender<Job>>,
    closed: Receiver<()>,
}

impl ContainedStore {
    pub(crate) fn open(dir: &Path, pipeline: &str) -> Result<(Self, Contents), StoreError> {
        let (jobs, inbox) = mpsc::sync_channel::<Job>(1);
        let (opened, answer) = mpsc::sync_channel(1);
        let (closing, closed) = mpsc::sync_channel(1);
        let (dir, pipeline) = (dir.to_owned(), pipeline.to_owned());
        thread::Builder::new().name("positions".to_owned()).spawn(move || {
            let Ok(result) = catch_unwind(|| Store::open(&dir, &pipeline)) else { return };
            match result {
                Ok((store, contents)) => {
                    // Nobody waits any more: then the store closes here.
                    if opened.send(Ok(contents)).is_ok() {
                        serve(store, &inbox);
                    }
                }
                Err(error) => drop(opened.send(Err(error))),
            }
            let _ = closing.send(());
        })?;
        let contents = wait(&answer)??;
        Ok((Self { jobs: Some(jobs), closed }, contents))
    }

    /// Makes the change durable; returns the bytes on disk.
    pub(crate) fn apply(&self, change: Change) -> Result<u64, StoreError> {
        let (done, answer) = mpsc::sync_channel(1);
        let job: Job = Box::new(move |store| {
            let result = store.apply(&change).and_then(|()| store.size_on_disk());
            drop(done.send(result));
        });
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.try_send(job).is_ok());
        if !sent {
            return Err(StoreError::Damaged("it no longer answers".to_owned()));
        }
        wait(&answer)?
    }
}

/// Runs jobs until nobody can send one, or one panics.
fn serve(store: Store, inbox: &Receiver<Job>) {
    for job in inbox {
        if catch_unwind(AssertUnwindSafe(|| job(&store))).is_err() {
            // Closing writes, and may panic or wait over the same damage. The process keeps a few files open instead.
            std::mem::forget(store);
            return;
        }
    }
    drop(catch_unwind(AssertUnwindSafe(|| drop(store))));
}

fn wait<T>(answer: &Receiver<T>) -> Result<T, StoreError> {
    answer.recv_timeout(PATIENCE).map_err(|error| {
        StoreError::Damaged(match error {
            RecvTimeoutError::Timeout => format!("no answer within {} s", PATIENCE.as_secs()),
            RecvTimeoutError::Disconnected => "reading or writing it failed inside sled".to_owned(),
        })
    })
}

impl Drop for ContainedStore {
    fn drop(&mut self) {
        // The files are free for the next one to open when this returns, unless sled hangs.
        self.jobs = None;
        let _ = self.closed.recv_timeout(PATIENCE);
    }
}

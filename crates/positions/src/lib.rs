//! Positions and checkpoint intents, persisted in sled and durable on return.
//!
//! What is kept here is a cache: the tables in the lake say the same, and are asked first. So a directory that is
//! damaged, cut short or foreign is moved aside and begun anew, which costs time and never rows. What is kept in memory
//! beside it (a position and a handful of intents) lets that happen in the middle of a run as well.

mod contained;
mod directory;
mod failpoint;
mod store;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use calve_core::{
    CheckpointId, CheckpointIntent, Error, ErrorKind, MemberDigest, Position, PositionStore, Result, SavedState,
};

use crate::contained::ContainedStore;
use crate::store::{Change, Contents, StoreError};

/// sled does not give back all the space of what was removed. Beyond this the directory is written anew.
const REWRITE_BYTES: u64 = 64 << 20;

/// The local state of one pipeline, locked for this process.
pub struct Positions {
    inner: Mutex<Inner>,
    /// Held as long as the store is.
    _lock: File,
}

struct Inner {
    dir: PathBuf,
    pipeline: String,
    /// What the store holds after the last successful change.
    contents: Contents,
    /// None after an error, until the next change opens it again.
    store: Option<ContainedStore>,
    rewrite_bytes: u64,
}

impl Positions {
    /// Opens the directory, making it where it is missing.
    ///
    /// An error of kind `Conflict` means that another process has it open, `Config` that it is another pipeline's or not
    /// accessible. Damage is no error: the directory is kept as `<dir>.damaged-<n>` and an empty one begun.
    pub fn open(dir: impl AsRef<Path>, pipeline: &str) -> Result<Self> {
        let dir = dir.as_ref();
        directory::make_parent(dir)?;
        let lock = directory::lock(dir)?;
        directory::finish_rewrite(dir)?;
        let (store, contents) = open_or_rebuild(dir, pipeline)?;
        let inner = Inner {
            dir: dir.to_owned(),
            pipeline: pipeline.to_owned(),
            contents,
            store: Some(store),
            rewrite_bytes: REWRITE_BYTES,
        };
        Ok(Self { inner: Mutex::new(inner), _lock: lock })
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        // A panic while it was held left the contents as of the last successful change.
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl PositionStore for Positions {
    fn load(&self) -> Result<SavedState> {
        let contents = self.inner().contents.clone();
        Ok(SavedState {
            position: contents.position,
            intents: contents.intents.into_iter().map(|(_, intent)| intent).collect(),
        })
    }

    fn put_intent(&self, intent: &CheckpointIntent) -> Result<()> {
        let mut inner = self.inner();
        let mut after = inner.contents.clone();
        let number = if let Some((number, known)) = after.intents.iter_mut().find(|(_, known)| known.id == intent.id) {
            known.clone_from(intent);
            *number
        } else {
            let number = after.intents.last().map_or(0, |(number, _)| number + 1);
            after.intents.push((number, intent.clone()));
            number
        };
        inner.change(Change::PutIntent(number, Box::new(intent.clone())), after)?;
        failpoint::hit("positions.intent-written");
        Ok(())
    }

    fn advance(&self, done: &CheckpointId, position: &Position, members: MemberDigest) -> Result<()> {
        let mut inner = self.inner();
        let mut after = inner.contents.clone();
        let drop = after.intents.iter().find(|(_, known)| known.id == *done).map(|(number, _)| *number);
        after.intents.retain(|(_, known)| known.id != *done);
        let stays = after.position.as_ref().is_some_and(|(saved, of)| *of == members && saved.covers(position));
        let advanced = (!stays).then(|| (position.clone(), members));
        if advanced.is_some() {
            after.position.clone_from(&advanced);
        }
        if drop.is_some() || advanced.is_some() {
            inner.change(Change::Advance { position: advanced, drop }, after)?;
        }
        failpoint::hit("positions.advanced");
        Ok(())
    }

    fn drop_intents(&self) -> Result<()> {
        let mut inner = self.inner();
        let numbers: Vec<u64> = inner.contents.intents.iter().map(|(number, _)| *number).collect();
        if numbers.is_empty() {
            return Ok(());
        }
        let after = Contents { position: inner.contents.position.clone(), intents: Vec::new() };
        inner.change(Change::DropIntents(numbers), after)
    }
}

impl Inner {
    /// Makes the change durable; `after` is what the store then holds.
    fn change(&mut self, change: Change, after: Contents) -> Result<()> {
        let first = self.store.as_ref().map(|store| store.apply(change));
        let bytes = match first {
            Some(Ok(bytes)) => bytes,
            Some(Err(StoreError::Io(error))) => {
                // sled refuses everything after its first failed write, so it is opened again once the disk is well.
                self.store = None;
                return Err(io_error(&self.dir, "written", error));
            }
            Some(Err(error)) => {
                tracing::warn!(directory = %self.dir.display(), %error, "the saved positions are opened anew");
                self.store = None;
                self.reopen(&after)?
            }
            None => self.reopen(&after)?,
        };
        self.contents = after;
        if bytes > self.rewrite_bytes
            && let Err(error) = self.rewrite()
        {
            // The change is durable, in the old directory at least; the next change tries to open the new one.
            tracing::warn!(directory = %self.dir.display(), %error, "the saved positions could not be written anew");
        }
        Ok(())
    }

    /// Opens the store and has it hold `contents`.
    fn reopen(&mut self, contents: &Contents) -> Result<u64> {
        let (store, _) = match open_or_rebuild(&self.dir, &self.pipeline) {
            // Ours is the only process here, so it is an earlier opening of ours that hangs.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                directory::move_aside(&self.dir)?;
                open_or_rebuild(&self.dir, &self.pipeline)?
            }
            other => other?,
        };
        let bytes = store.apply(Change::Replace(contents.clone())).map_err(|error| match error {
            StoreError::Io(error) => io_error(&self.dir, "written", error),
            other => Error::with_source(
                ErrorKind::Retry,
                format!("the saved positions in {} cannot be written", self.dir.display()),
                other,
            ),
        })?;
        self.store = Some(store);
        directory::end_rewrite(&self.dir)?;
        Ok(bytes)
    }

    /// Writes the directory anew, so that it does not grow for ever.
    fn rewrite(&mut self) -> Result<()> {
        self.store = None;
        directory::begin_rewrite(&self.dir)?;
        let contents = self.contents.clone();
        self.reopen(&contents)?;
        Ok(())
    }
}

fn open_or_rebuild(dir: &Path, pipeline: &str) -> Result<(ContainedStore, Contents)> {
    let mut why = match open_patiently(dir, pipeline) {
        Ok(opened) => return Ok(opened),
        Err(error) => error,
    };
    if let StoreError::Damaged(damage) = &why {
        let kept = directory::move_aside(dir)?;
        tracing::warn!(
            directory = %dir.display(),
            kept = %kept.display(),
            %damage,
            "the saved positions are damaged and begun anew; the tables in the lake say where to go on"
        );
        why = match open_patiently(dir, pipeline) {
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
    }
    Err(match why {
        StoreError::Io(error) => io_error(dir, "opened", error),
        StoreError::Locked => directory::already_running(dir),
        StoreError::OtherPipeline(other) => Error::new(
            ErrorKind::Config,
            format!(
                "the saved positions in {} belong to pipeline '{other}', not to '{pipeline}': run it as '{other}', or \
                 give this pipeline a directory of its own",
                dir.display()
            ),
        ),
        StoreError::Damaged(damage) => Error::new(
            ErrorKind::Corrupt,
            format!("the directory {} cannot hold the saved positions, even begun anew: {damage}", dir.display()),
        ),
    })
}

/// Opens; waits a moment for a process that was just killed, or a store that was just closed, to let go of the files.
fn open_patiently(dir: &Path, pipeline: &str) -> std::result::Result<(ContainedStore, Contents), StoreError> {
    directory::patiently(|| match ContainedStore::open(dir, pipeline) {
        Err(StoreError::Locked) => None,
        other => Some(other),
    })
    .unwrap_or(Err(StoreError::Locked))
}

fn io_error(dir: &Path, done: &str, error: std::io::Error) -> Error {
    directory::io_error(&format!("the saved positions in {} cannot be {done}", dir.display()), error)
}

#[cfg(test)]
mod tests;

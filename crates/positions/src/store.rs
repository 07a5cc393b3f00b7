//! The saved state as keys and values of sled, and what it takes to have a write survive a power cut.
//!
//! sled's own `flush` on Linux asks for `sync_file_range` only, which neither reaches the disk's cache nor covers the
//! file's length; so every write here ends with an fsync of sled's files.
//!
//! | key | value (JSON) |
//! |---|---|
//! | `meta` | format and pipeline |
//! | `position` | the position and the tables it speaks for |
//! | `intent/` and 8 bytes, big-endian | an intent; the number grows, so that order is age |

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use calve_core::{CheckpointIntent, MemberDigest, Position};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::directory;

/// What is written now. A directory of another format is rebuilt: it holds nothing that the lake does not know.
const FORMAT: u32 = 2;

/// Intents and a position take kilobytes; sled's default is 1 GiB.
const CACHE_BYTES: u64 = 8 << 20;

const META: &[u8] = b"meta";
const POSITION: &[u8] = b"position";
const INTENT: &[u8] = b"intent/";

/// Why the store could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The disk's or the permissions' fault: the files may be sound.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The files are not what was written.
    #[error("{0}")]
    Damaged(String),
    /// Somebody has the files open.
    #[error("it is locked")]
    Locked,
    /// The files are another pipeline's.
    #[error("it belongs to pipeline '{0}'")]
    OtherPipeline(String),
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Something else than sled's own files lies there.
            io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::NotFound => Self::Damaged(error.to_string()),
            // Not from the system, but what sled says of what it found in its files.
            _ if error.raw_os_error().is_none() => Self::Damaged(error.to_string()),
            _ => Self::Io(error),
        }
    }
}

impl From<sled::Error> for StoreError {
    fn from(error: sled::Error) -> Self {
        match error {
            // sled keeps the system's error in the text only.
            sled::Error::Io(error) if error.to_string().starts_with("could not acquire lock") => Self::Locked,
            sled::Error::Io(error) => error.into(),
            other => Self::Damaged(other.to_string()),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Meta {
    format: u32,
    pipeline: String,
}

/// Everything that is saved, intents by number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Contents {
    pub(crate) position: Option<(Position, MemberDigest)>,
    pub(crate) intents: Vec<(u64, CheckpointIntent)>,
}

/// One durable change.
pub(crate) enum Change {
    PutIntent(u64, Box<CheckpointIntent>),
    Advance {
        position: Option<(Position, MemberDigest)>,
        drop: Option<u64>,
    },
    DropIntents(Vec<u64>),
    /// Whatever is there goes, and this comes.
    Replace(Contents),
}

/// An open sled database.
pub(crate) struct Store {
    db: sled::Db,
    dir: PathBuf,
    /// sled's log, opened once more to be fsynced; sled does not give out its own.
    log: File,
}

impl Store {
    /// Opens the directory, makes it where it is missing, and reads all of it.
    pub(crate) fn open(dir: &Path, pipeline: &str) -> Result<(Self, Contents), StoreError> {
        let db = sled::Config::new().path(dir).cache_capacity(CACHE_BYTES).flush_every_ms(None).open()?;
        let store = Self { db, log: File::open(dir.join("db"))?, dir: dir.to_owned() };
        match store.db.get(META)? {
            Some(bytes) => {
                let meta: Meta = parse("meta", &bytes)?;
                if meta.format != FORMAT {
                    return Err(StoreError::Damaged(format!("format {} instead of {FORMAT}", meta.format)));
                }
                if meta.pipeline != pipeline {
                    return Err(StoreError::OtherPipeline(meta.pipeline));
                }
            }
            None if store.db.is_empty() => {
                let meta = Meta { format: FORMAT, pipeline: pipeline.to_owned() };
                store.db.insert(META, to_json(&meta)?)?;
                store.sync()?;
                File::open(dir)?.sync_all()?;
                directory::sync_parent(dir)?;
            }
            None => return Err(StoreError::Damaged("its format is not recorded".to_owned())),
        }
        let contents = store.read()?;
        Ok((store, contents))
    }

    fn read(&self) -> Result<Contents, StoreError> {
        let mut contents = Contents::default();
        for entry in self.db.iter() {
            let (key, value) = entry?;
            match &*key {
                META => {}
                POSITION => contents.position = Some(parse("position", &value)?),
                other => {
                    let number = other.strip_prefix(INTENT).and_then(|n| n.try_into().ok()).map(u64::from_be_bytes);
                    let number = number.ok_or_else(|| StoreError::Damaged("an unknown key in it".to_owned()))?;
                    contents.intents.push((number, parse("intent", &value)?));
                }
            }
        }
        Ok(contents)
    }

    /// Applies the change, all of it or nothing, and fsyncs.
    pub(crate) fn apply(&self, change: &Change) -> Result<(), StoreError> {
        let mut batch = sled::Batch::default();
        match change {
            Change::PutIntent(number, intent) => batch.insert(intent_key(*number), to_json(intent)?),
            Change::Advance { position, drop } => {
                if let Some(position) = position {
                    batch.insert(POSITION, to_json(position)?);
                }
                if let Some(number) = drop {
                    batch.remove(intent_key(*number));
                }
            }
            Change::DropIntents(numbers) => numbers.iter().for_each(|number| batch.remove(intent_key(*number))),
            Change::Replace(contents) => {
                for entry in self.db.iter().keys() {
                    let key = entry?;
                    if key != META {
                        batch.remove(key);
                    }
                }
                if let Some(position) = &contents.position {
                    batch.insert(POSITION, to_json(position)?);
                }
                for (number, intent) in &contents.intents {
                    batch.insert(intent_key(*number), to_json(intent)?);
                }
            }
        }
        self.db.apply_batch(batch)?;
        self.sync()
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.db.flush()?;
        self.log.sync_all()?;
        // Values beyond an eighth of a megabyte or so go into files of their own.
        let blobs = self.dir.join("blobs");
        let mut any = false;
        for entry in fs::read_dir(&blobs)? {
            match File::open(entry?.path()) {
                Ok(blob) => blob.sync_all()?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
            any = true;
        }
        if any {
            File::open(&blobs)?.sync_all()?;
        }
        Ok(())
    }

    /// Bytes of all files.
    pub(crate) fn size_on_disk(&self) -> Result<u64, StoreError> {
        Ok(self.db.size_on_disk()?)
    }
}

fn intent_key(number: u64) -> Vec<u8> {
    [INTENT, &number.to_be_bytes()].concat()
}

fn to_json(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| StoreError::Damaged(error.to_string()))
}

fn parse<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|error| StoreError::Damaged(format!("its {what} cannot be read: {error}")))
}

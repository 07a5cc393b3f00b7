//! What happens to a pipeline's local state between two runs: nothing, its loss, damage, or an older copy in its place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::random::Random;

/// Something that happens to local state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mishap {
    /// The directory is gone.
    Deleted,
    /// Bytes in the middle of a file are others.
    Scribbled,
    /// A file ends too early.
    CutShort,
    /// A copy of earlier stands in its place.
    Older,
}

const MISHAPS: [Mishap; 4] = [Mishap::Deleted, Mishap::Scribbled, Mishap::CutShort, Mishap::Older];

impl Mishap {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Deleted => "state deleted",
            Self::Scribbled => "state damaged",
            Self::CutShort => "state cut short",
            Self::Older => "older state",
        }
    }
}

/// The directory, and the copy of it that may come back.
#[derive(Debug)]
pub(super) struct LocalState {
    directory: PathBuf,
    copy: PathBuf,
}

impl LocalState {
    pub(super) fn new(directory: PathBuf, copy: PathBuf) -> Self {
        Self { directory, copy }
    }

    /// Puts a copy aside, beside a running process too: a backup would be no better.
    pub(super) fn copy_aside(&self) -> anyhow::Result<()> {
        let _ = fs::remove_dir_all(&self.copy);
        copy_directory(&self.directory, &self.copy).context("copying local state")
    }

    /// One mishap or another.
    pub(super) fn suffer(&self, random: &mut Random) -> anyhow::Result<Mishap> {
        let mishap = *random.pick(&MISHAPS);
        self.apply(mishap, random).with_context(|| format!("{} in {}", mishap.name(), self.directory.display()))?;
        Ok(mishap)
    }

    /// This mishap.
    pub(super) fn apply(&self, mishap: Mishap, random: &mut Random) -> io::Result<()> {
        match mishap {
            Mishap::Older if self.copy.is_dir() => {
                remove(&self.directory)?;
                copy_directory(&self.copy, &self.directory)
            }
            // Without a copy there is nothing to come back.
            Mishap::Deleted | Mishap::Older => remove(&self.directory),
            Mishap::Scribbled => self.in_some_file(random, |file, length, random| {
                file.seek(SeekFrom::Start(random.below(length)))?;
                let bytes: Vec<u8> = (0..random.between(1, 64)).map(|_| random.bits().to_le_bytes()[0]).collect();
                file.write_all(&bytes)
            }),
            Mishap::CutShort => self.in_some_file(random, |file, length, random| file.set_len(random.below(length))),
        }
    }

    fn in_some_file(
        &self,
        random: &mut Random,
        change: impl FnOnce(&mut File, u64, &mut Random) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut files = Vec::new();
        collect(&self.directory, &mut files)?;
        files.sort();
        if files.is_empty() {
            return Ok(());
        }
        let (path, length) = random.pick(&files);
        change(&mut OpenOptions::new().write(true).open(path)?, *length, random)
    }
}

/// All files that hold something, with their lengths.
fn collect(directory: &Path, into: &mut Vec<(PathBuf, u64)>) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            collect(&entry.path(), into)?;
        } else if metadata.len() > 0 {
            into.push((entry.path(), metadata.len()));
        }
    }
    Ok(())
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let copied = match entry.file_type() {
            Ok(kind) if kind.is_dir() => copy_directory(&entry.path(), &target),
            Ok(_) => fs::copy(entry.path(), &target).map(drop),
            Err(error) => Err(error),
        };
        match copied {
            // A running process may have removed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

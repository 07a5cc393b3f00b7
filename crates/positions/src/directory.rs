//! What happens to the directory as a whole: locking it, moving it aside, writing it anew.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use calve_core::{Error, ErrorKind, Result};

/// How long a process that was just killed may take to let go of its files.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// Damaged directories kept for whoever wants to look into them.
const KEPT: u64 = 3;

/// Makes the directory that `dir` lies in.
pub(crate) fn make_parent(dir: &Path) -> Result<()> {
    let parent = parent(dir);
    fs::create_dir_all(parent)
        .map_err(|error| io_error(&format!("the directory {} cannot be made", parent.display()), error))
}

/// Takes the lock on `dir` until the file returned is dropped. The lock lies beside the directory, so that it stays when
/// the directory is moved.
pub(crate) fn lock(dir: &Path) -> Result<File> {
    let path = beside(dir, ".lock");
    let failed = |error| io_error(&format!("the lock file {} cannot be used", path.display()), error);
    let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    let locked = patiently(|| match file.try_lock() {
        Ok(()) => Some(Ok(())),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => Some(Err(error)),
    });
    match locked {
        None => return Err(already_running(dir)),
        Some(result) => result.map_err(failed)?,
    }
    // For the message of whoever comes second; the lock itself is what counts.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

pub(crate) fn already_running(dir: &Path) -> Error {
    let owner = fs::read_to_string(beside(dir, ".lock")).unwrap_or_default();
    let owner = owner.trim().parse::<u32>().map_or(String::new(), |pid| format!(" (process {pid})"));
    Error::new(
        ErrorKind::Conflict,
        format!(
            "the pipeline is already running{owner}: {} is locked. Stop that process, or give this pipeline another name",
            dir.display()
        ),
    )
}

/// Tries again for a moment until there is an answer.
pub(crate) fn patiently<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = attempt() {
            return Some(answer);
        }
        if start.elapsed() > LOCK_PATIENCE {
            return None;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Moves `dir` out of the way and says where it went.
pub(crate) fn move_aside(dir: &Path) -> Result<PathBuf> {
    let failed = |error| io_error(&format!("the damaged {} cannot be moved aside", dir.display()), error);
    let kept = damaged(dir).map_err(failed)?;
    let number = kept.iter().max().map_or(1, |newest| newest + 1);
    let target = beside(dir, &format!(".damaged-{number}"));
    fs::rename(dir, &target).map_err(failed)?;
    for old in kept.into_iter().filter(|n| n + KEPT <= number) {
        // Only to save space: a directory that will not go does no harm.
        let _ = remove(&beside(dir, &format!(".damaged-{old}")));
    }
    sync_parent(dir).map_err(failed)?;
    Ok(target)
}

/// The numbers of the damaged directories beside `dir`.
fn damaged(dir: &Path) -> io::Result<Vec<u64>> {
    let Some(prefix) = beside(dir, ".damaged-").file_name().map(|name| name.to_string_lossy().into_owned()) else {
        return Ok(Vec::new());
    };
    let mut numbers = Vec::new();
    for entry in fs::read_dir(parent(dir))? {
        let name = entry?.file_name();
        numbers.extend(name.to_string_lossy().strip_prefix(&prefix).and_then(|n| n.parse::<u64>().ok()));
    }
    Ok(numbers)
}

/// Puts the present directory aside, to be replaced by a smaller one of the same contents.
pub(crate) fn begin_rewrite(dir: &Path) -> Result<()> {
    let old = beside(dir, ".old");
    remove(&old)
        .and_then(|()| fs::rename(dir, &old))
        .and_then(|()| sync_parent(dir))
        .map_err(|e| rewrite_failed(dir, e))
}

/// The directory at its place holds everything: the old one goes, if there is one.
pub(crate) fn end_rewrite(dir: &Path) -> Result<()> {
    remove(&beside(dir, ".old")).map_err(|error| rewrite_failed(dir, error))
}

/// Goes back to the old directory if the process ended between [`begin_rewrite`] and [`end_rewrite`].
pub(crate) fn finish_rewrite(dir: &Path) -> Result<()> {
    let old = beside(dir, ".old");
    if !old.exists() {
        return Ok(());
    }
    remove(dir).and_then(|()| fs::rename(&old, dir)).and_then(|()| sync_parent(dir)).map_err(|e| rewrite_failed(dir, e))
}

fn rewrite_failed(dir: &Path, error: io::Error) -> Error {
    io_error(&format!("the saved positions in {} cannot be written anew", dir.display()), error)
}

fn beside(dir: &Path, suffix: &str) -> PathBuf {
    let mut path = dir.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Removes whatever is at `path`, if anything.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes renames in the directory that `dir` lies in durable.
pub(crate) fn sync_parent(dir: &Path) -> io::Result<()> {
    File::open(parent(dir))?.sync_all()
}

fn parent(dir: &Path) -> &Path {
    dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// An error of the file system: permissions are the operator's to mend, all else may pass.
pub(crate) fn io_error(what: &str, error: io::Error) -> Error {
    let (kind, remedy) = match error.kind() {
        io::ErrorKind::PermissionDenied => (ErrorKind::Config, ": give this user the right to write there"),
        io::ErrorKind::ReadOnlyFilesystem => (ErrorKind::Config, ": choose a directory that can be written"),
        io::ErrorKind::NotADirectory => (ErrorKind::Config, ": a file is in the way"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (ErrorKind::Retry, ": free some space"),
        _ => (ErrorKind::Retry, ""),
    };
    Error::with_source(kind, format!("{what} ({error}){remedy}"), error)
}

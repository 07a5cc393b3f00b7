//! A file of blocks of one size, each written once, read once, and then used again. However many spools there are, it is one
//! open file.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes that a block may hold.
pub(crate) const BLOCK_BYTES: usize = 128 << 10;

/// What names of such files begin with, while they have one.
const PREFIX: &str = "calve-spool-";

/// A block in use. It is given back by [`BlockFile::release`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    index: u32,
    /// Bytes in it.
    length: u32,
}

#[derive(Debug)]
pub(crate) struct BlockFile {
    directory: PathBuf,
    file: Option<File>,
    /// Blocks below `end` that are not in use. The last block of the file is.
    free: BTreeSet<u32>,
    end: u32,
}

impl BlockFile {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory, file: None, free: BTreeSet::new(), end: 0 }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes at most [`BLOCK_BYTES`] into a block of their own, as near to the file's beginning as there is one.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<Block> {
        let length = u32::try_from(bytes.len().min(BLOCK_BYTES)).map_err(io::Error::other)?;
        let index = self.free.first().copied().unwrap_or(self.end);
        let after =
            index.checked_add(1).ok_or_else(|| io::Error::other("the file has as many blocks as can be counted"))?;
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(nameless(&self.directory)?),
        };
        file.write_all_at(bytes, offset(index))?;
        self.free.remove(&index);
        self.end = self.end.max(after);
        Ok(Block { index, length })
    }

    /// Reads what a block holds.
    pub(crate) fn read(&self, block: Block, into: &mut Vec<u8>) -> io::Result<()> {
        into.resize(block.length as usize, 0);
        let file = self.file.as_ref().ok_or(ErrorKind::NotFound)?;
        file.read_exact_at(into, offset(block.index))
    }

    /// The blocks are not needed any more. What is free at the file's end is given back to the disk.
    pub(crate) fn release(&mut self, blocks: impl IntoIterator<Item = Block>) {
        self.free.extend(blocks.into_iter().map(|block| block.index));
        let before = self.end;
        while self.end > 0 && self.free.remove(&(self.end - 1)) {
            self.end -= 1;
        }
        if let Some(file) = self.file.as_ref().filter(|_| self.end < before) {
            // Where it cannot be cut the space is used again later all the same.
            let _ = file.set_len(offset(self.end));
        }
    }
}

#[cfg(test)]
impl BlockFile {
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    pub(crate) fn free(&self) -> &BTreeSet<u32> {
        &self.free
    }

    pub(crate) fn length(&self) -> io::Result<u64> {
        self.file.as_ref().map_or(Ok(0), |file| Ok(file.metadata()?.len()))
    }
}

fn offset(index: u32) -> u64 {
    u64::from(index) * BLOCK_BYTES as u64
}

/// A file that nobody else can open and that is gone when it is closed.
fn nameless(directory: &Path) -> io::Result<File> {
    let path = directory.join(format!("{PREFIX}{}", uuid::Uuid::new_v4()));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    match fs::remove_file(&path) {
        // Another process, which began just now, was quicker.
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(file),
    }
}

/// Removes what still has a name.
pub(crate) fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            // Another user's, or gone already.
            let _ = fs::remove_file(entry.path());
        }
    }
}

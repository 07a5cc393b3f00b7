//! What sources hold of transactions that are not decided yet: records of bytes, in the order in which they came.
//!
//! Any number of transactions may be open at once, and each may be larger than memory. Together they take a few megabytes of
//! memory and, beyond that, one file in blocks, which has no name and goes with the process.

mod blocks;

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use blocks::{BLOCK_BYTES, Block, BlockFile};

/// Bytes that all spools of a stream together keep in memory.
const MEMORY_BYTES: usize = 8 << 20;

/// The spools of one stream, which share memory and file.
#[derive(Clone, Debug)]
pub struct Spools(Arc<Mutex<Shared>>);

#[derive(Debug)]
struct Shared {
    file: BlockFile,
    /// By the spool's number.
    contents: HashMap<u64, Content>,
    next_number: u64,
    /// Bytes in all tails.
    in_memory: usize,
    memory_bytes: usize,
}

/// What was put into a spool: blocks of the file, then a tail that is not written yet.
#[derive(Debug, Default)]
struct Content {
    blocks: Vec<Block>,
    tail: Vec<u8>,
}

impl Spools {
    /// Nothing is made in the directory before memory does not do.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self::with_memory(directory.into(), MEMORY_BYTES)
    }

    fn with_memory(directory: PathBuf, memory_bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(Shared {
            file: BlockFile::new(directory),
            contents: HashMap::new(),
            next_number: 0,
            in_memory: 0,
            memory_bytes,
        })))
    }

    /// Removes what a process left in the directory that was killed in the moment between making its file and taking the
    /// name off it. What belongs to living processes stays usable to them.
    pub fn sweep(directory: &Path) {
        blocks::sweep(directory);
    }

    /// An empty spool.
    pub fn spool(&self) -> Spool {
        let mut shared = self.lock();
        let number = shared.next_number;
        shared.next_number += 1;
        shared.contents.insert(number, Content::default());
        Spool { spools: self.clone(), number }
    }

    /// Where the file is, once there is one.
    pub fn directory(&self) -> PathBuf {
        self.lock().file.directory().to_owned()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // No change is left half done where something could panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Writes the longest tail into the file: whole blocks of it, or what there is.
    fn relieve(&mut self) -> io::Result<()> {
        let Some(content) = self.contents.values_mut().max_by_key(|content| content.tail.len()) else { return Ok(()) };
        let length = content.tail.len();
        let due = if length < BLOCK_BYTES { length } else { length - length % BLOCK_BYTES };
        let (mut written, mut outcome) = (0, Ok(()));
        for bytes in content.tail.get(..due).unwrap_or_default().chunks(BLOCK_BYTES) {
            match self.file.write(bytes) {
                Ok(block) => content.blocks.push(block),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
            written += bytes.len();
        }
        content.tail.drain(..written);
        self.in_memory -= written;
        outcome
    }

    fn take(&mut self, number: u64) -> Content {
        let content = self.contents.remove(&number).unwrap_or_default();
        self.in_memory -= content.tail.len();
        content
    }
}

/// Records of one transaction, in the order in which they came. What it takes is free again when it is dropped.
#[derive(Debug)]
pub struct Spool {
    spools: Spools,
    number: u64,
}

impl Spool {
    /// Appends a record, given in parts. After an error, which is one of the directory, nothing in the spool can be relied on.
    pub fn push(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let header = u32::try_from(length).map_err(|_| io::Error::other("a record of more than 4 GiB"))?.to_le_bytes();
        let mut guard = self.spools.lock();
        let shared = &mut *guard;
        let content = shared.contents.entry(self.number).or_default();
        content.tail.extend_from_slice(&header);
        for part in parts {
            content.tail.extend_from_slice(part);
        }
        shared.in_memory += header.len() + length;
        while shared.in_memory > shared.memory_bytes {
            shared.relieve()?;
        }
        Ok(())
    }

    /// Gives the records back, in order.
    pub fn read(self) -> Records {
        let content = self.spools.lock().take(self.number);
        let blocks = content.blocks.into_iter();
        Records { spools: self.spools.clone(), blocks, tail: Some(content.tail), chunk: Vec::new(), at: 0 }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let mut shared = self.spools.lock();
        let content = shared.take(self.number);
        shared.file.release(content.blocks);
    }
}

/// Reads a [`Spool`], a block at a time. Blocks are free again once they were read.
#[derive(Debug)]
pub struct Records {
    spools: Spools,
    blocks: std::vec::IntoIter<Block>,
    tail: Option<Vec<u8>>,
    chunk: Vec<u8>,
    at: usize,
}

impl Records {
    /// Reads the next record in place of what `record` holds; false after the last.
    pub fn next(&mut self, record: &mut Vec<u8>) -> io::Result<bool> {
        record.clear();
        if self.at == self.chunk.len() && !self.fill()? {
            return Ok(false);
        }
        let mut header = [0; 4];
        self.take(header.len(), |bytes, done| {
            for (to, from) in header.iter_mut().skip(done).zip(bytes) {
                *to = *from;
            }
        })?;
        // The length was written by this process, for bytes that it held in memory.
        let length = u32::from_le_bytes(header) as usize;
        record.reserve(length);
        self.take(length, |bytes, _| record.extend_from_slice(bytes))?;
        Ok(true)
    }

    /// Hands on as many bytes, in pieces, each with how many came before it.
    fn take(&mut self, length: usize, mut piece: impl FnMut(&[u8], usize)) -> io::Result<()> {
        let mut done = 0;
        while done < length {
            let rest = self.chunk.get(self.at..).unwrap_or_default();
            if rest.is_empty() {
                if !self.fill()? {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                continue;
            }
            let bytes = rest.get(..length - done).unwrap_or(rest);
            piece(bytes, done);
            self.at += bytes.len();
            done += bytes.len();
        }
        Ok(())
    }

    /// Gets more; false where there is none.
    fn fill(&mut self) -> io::Result<bool> {
        self.at = 0;
        self.chunk.clear();
        if let Some(block) = self.blocks.next() {
            let mut shared = self.spools.lock();
            let read = shared.file.read(block, &mut self.chunk);
            shared.file.release([block]);
            return read.map(|()| true);
        }
        self.chunk = self.tail.take().unwrap_or_default();
        Ok(!self.chunk.is_empty())
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.spools.lock().file.release(self.blocks.by_ref());
    }
}

#[cfg(test)]
mod tests;

//! Events of a transaction that is prepared and not decided: raw, in memory while they are few, else in a file that has no
//! name and goes with the process.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes of one transaction that stay in memory.
const IN_MEMORY: usize = 1 << 20;

/// Events in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Spool {
    memory: Vec<u8>,
    file: Option<File>,
}

impl Spool {
    /// Appends an event.
    pub(crate) fn push(&mut self, kind: u8, body: &[u8], directory: &Path) -> io::Result<()> {
        let length = u32::try_from(body.len()).map_err(|_| io::Error::other("an event of more than 4 GiB"))?;
        self.memory.push(kind);
        self.memory.extend_from_slice(&length.to_le_bytes());
        self.memory.extend_from_slice(body);
        if self.memory.len() > IN_MEMORY {
            let file = match &mut self.file {
                Some(file) => file,
                None => self.file.insert(nameless(directory)?),
            };
            file.write_all(&self.memory)?;
            self.memory.clear();
        }
        Ok(())
    }

    /// Gives the events back, in order.
    pub(crate) fn read(mut self) -> io::Result<Events> {
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(0))?;
        }
        let file = self.file.map(|file| BufReader::with_capacity(1 << 18, file));
        Ok(Events { file, memory: io::Cursor::new(self.memory) })
    }
}

/// Events of a [`Spool`].
#[derive(Debug)]
pub(crate) struct Events {
    file: Option<BufReader<File>>,
    memory: io::Cursor<Vec<u8>>,
}

impl Events {
    /// The next event; None after the last.
    pub(crate) fn next(&mut self, body: &mut Vec<u8>) -> io::Result<Option<u8>> {
        if let Some(file) = &mut self.file {
            if let Some(kind) = read_event(file, body)? {
                return Ok(Some(kind));
            }
            self.file = None;
        }
        read_event(&mut self.memory, body)
    }
}

fn read_event(from: &mut impl Read, body: &mut Vec<u8>) -> io::Result<Option<u8>> {
    let mut kind = [0];
    if from.read(&mut kind)? == 0 {
        return Ok(None);
    }
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    body.clear();
    // The length was written by this process, for bytes that it held in memory.
    body.resize(u32::from_le_bytes(length) as usize, 0);
    from.read_exact(body)?;
    Ok(Some(kind[0]))
}

/// A file that nobody else can open and that is gone when it is closed.
fn nameless(directory: &Path) -> io::Result<File> {
    let path = directory.join(format!("calve-prepared-{}", uuid::Uuid::new_v4()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_back_in_order_from_memory_and_from_a_file() {
        for size in [0, 10, 300 << 10] {
            let mut spool = Spool::default();
            for kind in 0..20_u8 {
                spool.push(kind, &vec![kind; size + usize::from(kind)], &std::env::temp_dir()).unwrap();
            }
            assert_eq!(spool.file.is_some(), size > 1000, "{size}");
            let (mut events, mut body) = (spool.read().unwrap(), Vec::new());
            for kind in 0..20_u8 {
                assert_eq!(events.next(&mut body).unwrap(), Some(kind), "{size}");
                assert_eq!(body, vec![kind; size + usize::from(kind)], "{size}");
            }
            assert_eq!(events.next(&mut body).unwrap(), None);
        }
    }
}

//! Paths of sockets, which the kernel limits to 107 bytes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// `sun_path` is 108 bytes with its final zero (unix(7)).
const MAX_SOCKET_PATH: usize = 107;

/// A path to a socket, short enough for the kernel.
pub(super) struct SocketPath {
    path: PathBuf,
    /// Held while the path goes through it.
    _directory: Option<File>,
}

impl SocketPath {
    /// The path itself, or one through an open file of its directory where it is too long.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() <= MAX_SOCKET_PATH {
            return Ok(Self { path: path.to_owned(), _directory: None });
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        };
        let directory = File::open(parent)?;
        let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
        Ok(Self { path: short, _directory: Some(directory) })
    }

    /// The path, good for as long as `self` lives.
    pub(super) fn as_path(&self) -> &Path {
        &self.path
    }
}

//! Files on local storage that are still there after the power was cut.
//!
//! A file is complete once it was closed: its bytes are fsynced, then its directory's entry, and the entries of
//! directories made for it. The `iceberg` crate's own local storage does not do that. Files are never overwritten; a file
//! that could not be written whole is removed again.
//!
//! Everything that writes goes through [`DurableStorage`] (manifests, lists, metadata) or [`NewFile`] (data and delete
//! files, which encoders write from their own threads). An object store takes part by a [`Storage`] of its own and another
//! kind of [`NewFile`] that uploads parts; nothing else knows where files lie.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use calve_core::{Error, ErrorKind};
use futures::StreamExt;
use futures::stream::BoxStream;
use iceberg::io::{
    FileIO, FileIOBuilder, FileMetadata, FileRead, FileWrite, InputFile, OutputFile, Storage, StorageConfig,
    StorageFactory,
};
use serde::{Deserialize, Serialize};

/// Parquet pages are about a megabyte; the footer and small pages are gathered.
const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// Access to files of the lake, durable on close.
pub(crate) fn file_io() -> FileIO {
    FileIOBuilder::new(Arc::new(DurableStorageFactory)).build()
}

/// The local path of a location, where it is one: `file:///x`, `file:/x` and `/x` are all `/x`.
pub(crate) fn local_path(location: &str) -> Option<PathBuf> {
    let rest = location.strip_prefix("file:").unwrap_or(location);
    // `file://host/x` is a file of another host.
    let path = rest.strip_prefix("//").unwrap_or(rest);
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// A refused or failed file operation, by what the operator can do about it: permissions are theirs to mend, all else may
/// pass.
pub(crate) fn file_error(what: &str, location: &str, error: io::Error) -> Error {
    Error::with_source(io_kind(&error), format!("{}: {}", describe(what, location, &error), error), error)
}

/// Whether an error of the `iceberg` crate is one that waiting does not mend.
pub(crate) fn kind_of(error: &iceberg::Error) -> ErrorKind {
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return io_kind(io);
        }
        cause = inner.source();
    }
    ErrorKind::Retry
}

fn io_kind(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotADirectory => {
            ErrorKind::Config
        }
        _ => ErrorKind::Retry,
    }
}

fn describe(what: &str, location: &str, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => " (give this user the right to, or choose another lake directory)",
        io::ErrorKind::ReadOnlyFilesystem => " (choose a lake directory that can be written)",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => " (free some space)",
        _ => "",
    };
    format!("cannot {what} {location}{remedy}")
}

fn failed(what: &str, location: &str, error: io::Error) -> iceberg::Error {
    let kind = if error.kind() == io::ErrorKind::NotFound {
        iceberg::ErrorKind::DataInvalid
    } else {
        iceberg::ErrorKind::Unexpected
    };
    let message = format!("{}: {error}", describe(what, location, &error));
    iceberg::Error::new(kind, message).with_source(error)
}

/// A file being written. Dropped before [`finish`](Self::finish), it is removed.
pub(crate) struct NewFile {
    path: PathBuf,
    /// None once finished.
    file: Option<BufWriter<File>>,
    bytes: u64,
}

impl NewFile {
    /// Creates the file, and its directory where that is missing.
    pub(crate) fn create(location: &str) -> io::Result<Self> {
        let path = local_path(location).ok_or_else(|| {
            io::Error::new(io::ErrorKind::Unsupported, "only local files (file:///...) can be written, for now")
        })?;
        let open = || File::options().write(true).create_new(true).open(&path);
        let file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_directories(parent(&path))?;
                open()?
            }
            other => other?,
        };
        Ok(Self { path, file: Some(BufWriter::with_capacity(WRITE_BUFFER_BYTES, file)), bytes: 0 })
    }

    /// Makes the bytes durable and returns how many they are. The directory's entry is not durable until [`sync_directory`].
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        if let Some(file) = &mut self.file {
            file.flush()?;
            file.get_ref().sync_all()?;
        }
        self.file = None;
        Ok(self.bytes)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // Its buffer need not be written any more.
            drop(file.into_parts());
            // One that cannot be removed is found by its name later.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes the entries of files created in the directory of `location` durable.
pub(crate) fn sync_directory(location: &str) -> io::Result<()> {
    local_path(location).map_or(Ok(()), |path| File::open(parent(&path))?.sync_all())
}

/// As `fs::create_dir_all`, and durable.
pub(crate) fn make_directories(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Ok(()) => File::open(parent(dir))?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && parent(dir) != dir => {
            make_directories(parent(dir))?;
            make_directories(dir)
        }
        Err(error) => Err(error),
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("/"))
}

/// Makes [`DurableStorage`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct DurableStorageFactory;

#[typetag::serde(name = "CalveDurableStorageFactory")]
impl StorageFactory for DurableStorageFactory {
    fn build(&self, _config: &StorageConfig) -> iceberg::Result<Arc<dyn Storage>> {
        Ok(Arc::new(DurableStorage))
    }
}

/// The local file system, with every file durable when its writer is closed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct DurableStorage;

impl DurableStorage {
    /// Runs `work` on the local path where blocking does no harm.
    async fn on_path<T: Send + 'static>(
        what: &'static str,
        location: &str,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> iceberg::Result<T> {
        let Some(path) = local_path(location) else {
            return Err(iceberg::Error::new(
                iceberg::ErrorKind::FeatureUnsupported,
                format!("{location} is not a local file (file:///...), and no other storage is supported for now"),
            ));
        };
        match tokio::task::spawn_blocking(move || work(&path)).await {
            Ok(result) => result.map_err(|error| failed(what, location, error)),
            Err(panicked) => Err(failed(what, location, io::Error::other(panicked))),
        }
    }
}

#[async_trait]
#[typetag::serde(name = "CalveDurableStorage")]
impl Storage for DurableStorage {
    async fn exists(&self, path: &str) -> iceberg::Result<bool> {
        Self::on_path("look for", path, Path::try_exists).await
    }

    async fn metadata(&self, path: &str) -> iceberg::Result<FileMetadata> {
        Self::on_path("look at", path, |path| Ok(FileMetadata { size: fs::metadata(path)?.len() })).await
    }

    async fn read(&self, path: &str) -> iceberg::Result<Bytes> {
        Self::on_path("read", path, |path| fs::read(path).map(Bytes::from)).await
    }

    async fn reader(&self, path: &str) -> iceberg::Result<Box<dyn FileRead>> {
        let file = Self::on_path("open", path, |path| File::open(path)).await?;
        Ok(Box::new(OpenFile { file: Arc::new(file), location: path.to_owned() }))
    }

    async fn write(&self, path: &str, bytes: Bytes) -> iceberg::Result<()> {
        let location = path.to_owned();
        Self::on_path("write", path, move |_| {
            let mut file = NewFile::create(&location)?;
            file.write_all(&bytes)?;
            file.finish()?;
            sync_directory(&location)
        })
        .await
    }

    async fn writer(&self, path: &str) -> iceberg::Result<Box<dyn FileWrite>> {
        Ok(Box::new(Pending { storage: self.clone(), location: path.to_owned(), bytes: Some(Vec::new()) }))
    }

    async fn delete(&self, path: &str) -> iceberg::Result<()> {
        Self::on_path("remove", path, |path| match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        })
        .await
    }

    async fn delete_prefix(&self, path: &str) -> iceberg::Result<()> {
        Self::on_path("remove", path, |path| match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        })
        .await
    }

    async fn delete_stream(&self, mut paths: BoxStream<'static, String>) -> iceberg::Result<()> {
        while let Some(path) = paths.next().await {
            self.delete(&path).await?;
        }
        Ok(())
    }

    fn new_input(&self, path: &str) -> iceberg::Result<InputFile> {
        Ok(InputFile::new(Arc::new(self.clone()), path.to_owned()))
    }

    fn new_output(&self, path: &str) -> iceberg::Result<OutputFile> {
        Ok(OutputFile::new(Arc::new(self.clone()), path.to_owned()))
    }
}

struct OpenFile {
    file: Arc<File>,
    location: String,
}

#[async_trait]
impl FileRead for OpenFile {
    async fn read(&self, range: Range<u64>) -> iceberg::Result<Bytes> {
        let file = Arc::clone(&self.file);
        DurableStorage::on_path("read", &self.location, move |_| {
            let len = range.end.saturating_sub(range.start);
            // A length from damaged metadata must not become an allocation.
            if file.metadata()?.len() < range.end {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
            file.read_exact_at(&mut bytes, range.start)?;
            Ok(Bytes::from(bytes))
        })
        .await
    }
}

/// What was written so far. Metadata files are small, so they go to disk in one piece when closed.
struct Pending {
    storage: DurableStorage,
    location: String,
    /// None once closed.
    bytes: Option<Vec<u8>>,
}

impl Pending {
    fn closed(&self) -> iceberg::Error {
        iceberg::Error::new(iceberg::ErrorKind::DataInvalid, format!("{} was closed already", self.location))
    }
}

#[async_trait]
impl FileWrite for Pending {
    async fn write(&mut self, bytes: Bytes) -> iceberg::Result<()> {
        match &mut self.bytes {
            Some(written) => written.extend_from_slice(&bytes),
            None => return Err(self.closed()),
        }
        Ok(())
    }

    async fn close(&mut self) -> iceberg::Result<()> {
        let bytes = self.bytes.take().ok_or_else(|| self.closed())?;
        self.storage.write(&self.location, bytes.into()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of its own, gone at the test's end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("calve-storage-{}", uuid::Uuid::new_v4().simple()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn location(&self, name: &str) -> String {
            format!("file://{}/{name}", self.0.display())
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn locations_are_paths() {
        for (location, path) in [
            ("file:///a/b", Some("/a/b")),
            ("file:/a/b", Some("/a/b")),
            ("/a/b c%20", Some("/a/b c%20")),
            ("file://host/a", None),
            ("s3://bucket/a", None),
            ("a/b", None),
        ] {
            assert_eq!(local_path(location), path.map(PathBuf::from), "{location}");
        }
    }

    #[tokio::test]
    async fn files_are_written_whole_and_once() {
        let scratch = Scratch::new();
        let io = file_io();
        let location = scratch.location("metadata/deep/a.avro");
        let mut writer = io.new_output(&location).unwrap().writer().await.unwrap();
        writer.write(Bytes::from_static(b"one ")).await.unwrap();
        assert!(!io.exists(&location).await.unwrap(), "nothing is there before it is closed");
        writer.write(Bytes::from_static(b"two")).await.unwrap();
        writer.close().await.unwrap();
        assert!(writer.close().await.is_err());

        let input = io.new_input(&location).unwrap();
        assert_eq!(input.read().await.unwrap(), "one two");
        let reader = input.reader().await.unwrap();
        assert_eq!(reader.read(4..7).await.unwrap(), "two");
        assert!(reader.read(4..u64::MAX).await.is_err(), "beyond the end");

        let again = io.new_output(&location).unwrap().write("three".into()).await;
        assert!(again.unwrap_err().to_string().contains("File exists"));
        assert_eq!(input.read().await.unwrap(), "one two");

        io.delete(&location).await.unwrap();
        io.delete(&location).await.unwrap();
        assert!(input.read().await.is_err());
    }

    #[test]
    fn a_file_not_finished_leaves_nothing() {
        let scratch = Scratch::new();
        let location = scratch.location("data/x.parquet");
        let mut file = NewFile::create(&location).unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        assert!(local_path(&location).unwrap().exists());
        drop(file);
        assert!(!local_path(&location).unwrap().exists());

        let mut file = NewFile::create(&location).unwrap();
        file.write_all(b"kept").unwrap();
        file.finish().unwrap();
        sync_directory(&location).unwrap();
        assert_eq!(fs::read(local_path(&location).unwrap()).unwrap(), b"kept");
    }

    #[tokio::test]
    async fn what_the_operator_must_mend_is_no_retry() {
        let scratch = Scratch::new();
        fs::write(scratch.0.join("file"), "in the way").unwrap();
        let error = file_io().new_output(scratch.location("file/x")).unwrap().write("x".into()).await.unwrap_err();
        assert_eq!(kind_of(&error), ErrorKind::Config, "{error}");
        let error = file_io().new_input(scratch.location("missing")).unwrap().read().await.unwrap_err();
        assert_eq!(kind_of(&error), ErrorKind::Retry, "{error}");
        for (kind, expected, remedy) in [
            (io::ErrorKind::StorageFull, ErrorKind::Retry, "free some space"),
            (io::ErrorKind::ReadOnlyFilesystem, ErrorKind::Config, "that can be written"),
            (io::ErrorKind::PermissionDenied, ErrorKind::Config, "the right to"),
        ] {
            let error = file_error("write", "/lake/x", kind.into());
            assert_eq!(error.kind(), expected);
            assert!(error.to_string().contains(remedy), "{error}");
        }
    }
}

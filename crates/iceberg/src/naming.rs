//! Names of files in the lake. They carry the pipeline and the run that wrote them, so that what a killed run left behind
//! is found by listing the table's directories.
//!
//! Data, delete and manifest files are called `<pipeline>-<run>-<number>-<kind>.<extension>`. Metadata files keep the form
//! that every catalog expects, `<version>-<uuid>.metadata.json`; their uuid is of version 8 and begins with a digest of
//! the pipeline and of the run.

use std::sync::atomic::{AtomicU64, Ordering};

use calve_core::{Error, ErrorKind, Result};
use uuid::Uuid;

/// Bytes of a metadata file's uuid that name the pipeline (0 to 5) and the run (10 to 13).
const PIPELINE_BYTES: std::ops::Range<usize> = 0..6;
const RUN_BYTES: std::ops::Range<usize> = 10..14;

/// Who wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// This process.
    ThisRun,
    /// The same pipeline, in another process.
    OtherRun,
    /// Somebody else.
    Foreign,
}

/// Gives files of one run their names.
#[derive(Debug)]
pub(crate) struct FileNaming {
    pipeline: String,
    run: Uuid,
    pipeline_digest: Uuid,
    run_digest: Uuid,
    next: AtomicU64,
}

impl FileNaming {
    /// Names for the files of `run` of `pipeline`.
    pub(crate) fn new(pipeline: &str, run: Uuid) -> Result<Self> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        if pipeline.is_empty() || pipeline.len() > 100 || !pipeline.bytes().all(plain) {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "'{pipeline}' cannot name a pipeline: use 1 to 100 letters, digits, '_', '-' and '.', \
                     since the names of its files in the lake begin with it"
                ),
            ));
        }
        let pipeline_digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, pipeline.as_bytes());
        Ok(Self {
            pipeline: pipeline.to_owned(),
            run,
            pipeline_digest,
            run_digest: Uuid::new_v5(&pipeline_digest, run.as_bytes()),
            next: AtomicU64::new(0),
        })
    }

    /// The pipeline that writes.
    pub(crate) fn pipeline(&self) -> &str {
        &self.pipeline
    }

    /// A new data file of the table at `location`.
    pub(crate) fn data_file(&self, location: &str) -> String {
        format!("{location}/data/{}", self.file("data", "parquet"))
    }

    /// A new equality-delete file.
    pub(crate) fn delete_file(&self, location: &str) -> String {
        format!("{location}/data/{}", self.file("deletes", "parquet"))
    }

    /// A new manifest.
    pub(crate) fn manifest(&self, location: &str) -> String {
        format!("{location}/metadata/{}", self.file("manifest", "avro"))
    }

    /// A new manifest list.
    pub(crate) fn manifest_list(&self, location: &str) -> String {
        format!("{location}/metadata/{}", self.file("snapshot", "avro"))
    }

    /// A new metadata file of the given version.
    pub(crate) fn metadata(&self, location: &str, version: u32) -> String {
        let mut bytes = *Uuid::new_v4().as_bytes();
        bytes[PIPELINE_BYTES].copy_from_slice(&self.pipeline_digest.as_bytes()[..6]);
        bytes[RUN_BYTES].copy_from_slice(&self.run_digest.as_bytes()[..4]);
        let id = uuid::Builder::from_custom_bytes(bytes).into_uuid();
        format!("{location}/metadata/{version:05}-{id}.metadata.json")
    }

    /// Who wrote the file of this name (without its directory).
    pub(crate) fn writer_of(&self, file_name: &str) -> Writer {
        let ours = match file_name.strip_suffix(".metadata.json") {
            Some(stem) => self.metadata_is_of_run(stem.strip_suffix(".gz").unwrap_or(stem)),
            None => self.file_is_of_run(file_name),
        };
        match ours {
            Some(true) => Writer::ThisRun,
            Some(false) => Writer::OtherRun,
            None => Writer::Foreign,
        }
    }

    /// Names of this pipeline's data, delete and manifest files that stand in `bytes`.
    pub(crate) fn names_in(&self, bytes: &[u8]) -> Vec<String> {
        let start = format!("{}-", self.pipeline);
        let mut names = Vec::new();
        let mut rest = bytes;
        while let Some(at) = find(rest, start.as_bytes()) {
            let found = &rest[at..];
            names.extend(leading_name(found, start.len()));
            rest = &found[1..];
        }
        names
    }

    fn file(&self, kind: &str, extension: &str) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}-{}-{number:08}-{kind}.{extension}", self.pipeline, self.run.simple())
    }

    /// Whether this run wrote it; None where another pipeline did. Read from the right, since a pipeline's name may hold dashes.
    fn file_is_of_run(&self, file_name: &str) -> Option<bool> {
        let (stem, _extension) = file_name.rsplit_once('.')?;
        let (stem, _kind) = stem.rsplit_once('-')?;
        let (stem, number) = stem.rsplit_once('-')?;
        let (pipeline, run) = stem.rsplit_once('-')?;
        let numbered = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        (numbered && run.len() == 32 && pipeline == self.pipeline).then_some(())?;
        Some(Uuid::try_parse(run).ok()? == self.run)
    }

    fn metadata_is_of_run(&self, stem: &str) -> Option<bool> {
        let (_version, id) = stem.split_once('-')?;
        let id = Uuid::try_parse(id).ok()?;
        let bytes = id.as_bytes();
        let ours = id.get_version_num() == 8 && bytes[PIPELINE_BYTES] == self.pipeline_digest.as_bytes()[..6];
        ours.then(|| bytes[RUN_BYTES] == self.run_digest.as_bytes()[..4])
    }
}

/// The file name that `bytes` begin with, after `prefix` bytes that name the pipeline.
fn leading_name(bytes: &[u8], prefix: usize) -> Option<String> {
    let mut end = prefix;
    let mut skip = |wanted: fn(&u8) -> bool, then: u8| {
        let length = bytes.get(end..)?.iter().take_while(|b| wanted(b)).count();
        end += length;
        (bytes.get(end) == Some(&then)).then(|| end += 1)?;
        Some(length)
    };
    (skip(u8::is_ascii_hexdigit, b'-')? == 32).then_some(())?;
    (skip(u8::is_ascii_digit, b'-')? > 0).then_some(())?;
    (skip(u8::is_ascii_lowercase, b'.')? > 0).then_some(())?;
    let extension = ["parquet", "avro"].into_iter().find(|e| bytes[end..].starts_with(e.as_bytes()))?;
    String::from_utf8(bytes[..end + extension.len()].to_vec()).ok()
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    let first = *pattern.first()?;
    let mut from = 0;
    loop {
        from += bytes.get(from..)?.iter().position(|b| *b == first)?;
        if bytes[from..].starts_with(pattern) {
            return Some(from);
        }
        from += 1;
    }
}

/// The version in the name of a metadata file, for the next one's name.
pub(crate) fn metadata_version(location: &str) -> Option<u32> {
    let name = location.rsplit('/').next()?;
    let (version, _) = name.strip_suffix(".metadata.json")?.split_once('-')?;
    version.parse().ok()
}

/// A directory's name for a namespace or table of whatever name: itself where it is plain, else made plain and told apart
/// by a digest.
pub(crate) fn directory_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.chars().all(plain) {
        return name.to_owned();
    }
    let readable: String = name.chars().take(60).map(|c| if plain(c) && c != '.' { c } else { '_' }).collect();
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).simple().to_string();
    format!("{readable}-{}", &digest[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naming(pipeline: &str) -> FileNaming {
        FileNaming::new(pipeline, Uuid::new_v4()).unwrap()
    }

    fn name(path: &str) -> &str {
        path.rsplit('/').next().unwrap()
    }

    #[test]
    fn writers_are_told_apart_by_name() {
        let (mine, before, other, longer) = (naming("shop"), naming("shop"), naming("shop2"), naming("a-shop"));
        let kinds: [fn(&FileNaming) -> String; 5] = [
            |n| n.data_file("file:///t"),
            |n| n.delete_file("file:///t"),
            |n| n.manifest("file:///t"),
            |n| n.manifest_list("file:///t"),
            |n| n.metadata("file:///t", 17),
        ];
        for make in kinds {
            assert_eq!(mine.writer_of(name(&make(&mine))), Writer::ThisRun, "{}", make(&mine));
            assert_eq!(mine.writer_of(name(&make(&before))), Writer::OtherRun, "{}", make(&before));
            for foreign in [&other, &longer] {
                assert_eq!(mine.writer_of(name(&make(foreign))), Writer::Foreign, "{}", make(foreign));
                assert_eq!(foreign.writer_of(name(&make(&mine))), Writer::Foreign, "{}", make(&mine));
            }
            assert_ne!(make(&mine), make(&mine));
        }
        for foreign in [
            "00000-2cd22b57-5127-4198-92ba-e4e67c79821b.metadata.json",
            "snap-123-1-2cd22b57-5127-4198-92ba-e4e67c79821b.avro",
            "shop-notes.txt",
            "shop",
            "",
        ] {
            assert_eq!(mine.writer_of(foreign), Writer::Foreign, "{foreign}");
        }
    }

    #[test]
    fn names_are_found_in_bytes() {
        let (mine, other) = (naming("a-a"), naming("b"));
        let (data, list) = (mine.data_file("file:///t"), mine.manifest("file:///t"));
        let foreign = other.data_file("file:///t");
        // What follows a name in an Avro block may look like more of it.
        let bytes =
            [&b"\x02a-a-a-"[..], data.as_bytes(), b"aa-a-0", list.as_bytes(), b"9a-", foreign.as_bytes()].concat();
        assert_eq!(mine.names_in(&bytes), [name(&data), name(&list)]);
        assert_eq!(other.names_in(&bytes), [name(&foreign)]);
        for end in 0..bytes.len() {
            assert!(mine.names_in(&bytes[..end]).len() <= 2);
        }
    }

    #[test]
    fn metadata_files_read_as_the_catalogs_expect() {
        let path = naming("shop").metadata("file:///w/ns/t", 41);
        assert_eq!(metadata_version(&path), Some(41));
        let parsed: iceberg::MetadataLocation = path.parse().unwrap();
        assert_eq!(parsed.to_string(), path);
    }

    #[test]
    fn directories_have_plain_and_different_names() {
        assert_eq!(directory_name("orders"), "orders");
        let odd = ["a b", "a_b", "a/b", "..", "", "ä", "ö", "a\"b"].map(directory_name);
        for (i, a) in odd.iter().enumerate() {
            assert!(!a.is_empty() && !a.contains(['/', ' ', '"']) && !a.starts_with('.'), "{a}");
            assert!(odd.iter().skip(i + 1).all(|b| a != b), "{a} is not unique");
        }
    }

    #[test]
    fn a_pipeline_that_cannot_name_files_is_refused() {
        for bad in ["", "a/b", "a b", "ü"] {
            assert_eq!(FileNaming::new(bad, Uuid::new_v4()).unwrap_err().kind(), ErrorKind::Config);
        }
    }
}

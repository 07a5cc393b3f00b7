//! The lake's storage: files that survive a crash of the process, but a loss of power only once they are synced.

use std::collections::BTreeMap;

use super::change_log::LogRow;
use super::retired::Retired;
use super::source_log::Row;

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Rows.
    Data(Vec<Row>),
    /// Rows of a log beside those that its load brought.
    Log(Vec<LogRow>),
    /// Rows that were deleted and stay.
    Retired(Vec<Retired>),
    /// Keys that an equality delete takes away.
    Deletes(Vec<i64>),
}

#[derive(Clone, Debug)]
struct File {
    content: Content,
    synced: bool,
}

/// All files under the lake.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    files: BTreeMap<String, File>,
}

impl Disk {
    /// Writes a file; it is not synced yet.
    pub(crate) fn write(&mut self, path: &str, content: Content) {
        self.files.insert(path.to_owned(), File { content, synced: false });
    }

    /// Makes a file and its directory entry durable. A file that is gone stays gone.
    pub(crate) fn sync(&mut self, path: &str) {
        if let Some(file) = self.files.get_mut(path) {
            file.synced = true;
        }
    }

    /// What the file holds; None where there is none.
    pub(crate) fn read(&self, path: &str) -> Option<&Content> {
        self.files.get(path).map(|file| &file.content)
    }

    /// Whether the file is there and would survive a loss of power.
    pub(crate) fn is_durable(&self, path: &str) -> bool {
        self.files.get(path).is_some_and(|file| file.synced)
    }

    /// Removes a file; whether it was there.
    pub(crate) fn remove(&mut self, path: &str) -> bool {
        self.files.remove(path).is_some()
    }

    /// Paths that begin with `prefix`.
    pub(crate) fn list<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.files.range(prefix.to_owned()..).map(|(path, _)| path.as_str()).take_while(move |p| p.starts_with(prefix))
    }

    /// The power goes: what was not synced is gone.
    pub(crate) fn lose_power(&mut self) {
        self.files.retain(|_, file| file.synced);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_loss_takes_what_was_not_synced() {
        let mut disk = Disk::default();
        disk.write("t/1", Content::Data(vec![(1, 1)]));
        disk.write("t/2", Content::Deletes(vec![1]));
        disk.sync("t/2");
        assert!(!disk.is_durable("t/1") && disk.is_durable("t/2"));
        disk.lose_power();
        assert_eq!(disk.read("t/1"), None);
        assert_eq!(disk.list("t/").collect::<Vec<_>>(), ["t/2"]);
    }
}

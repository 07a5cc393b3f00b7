//! Takes options out of a raw configuration one by one, understood or added to the problems.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::option;
use super::problem::{Origin, Problem, Problems};
use super::raw::{Given, Raw, TableEntry};

/// Reads each option by its name and keeps count, so that a test can tell that no option lacks a reader.
pub(super) struct Reader<'a> {
    raw: &'a Raw,
    problems: &'a mut Problems,
    read: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(raw: &'a Raw, problems: &'a mut Problems) -> Self {
        Self { raw, problems, read: RefCell::default() }
    }

    /// The option as it was given.
    pub(super) fn given(&self, key: &'static str) -> Option<&'a Given> {
        debug_assert!(option::find(key).is_some(), "{key} is no option");
        self.read.borrow_mut().insert(key);
        self.raw.scalar(key)
    }

    /// The option's value, understood by `parse`; what it refuses becomes a problem, named by the option.
    pub(super) fn value<T>(&mut self, key: &'static str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let given = self.given(key)?;
        match parse(&given.text) {
            Ok(value) => Some(value),
            Err(what) => {
                self.refuse(key, given, &what);
                None
            }
        }
    }

    /// The option's value, refused where `accept` says why not; absent = `default`.
    pub(super) fn value_or<T>(
        &mut self,
        key: &'static str,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> T {
        self.value(key, parse).unwrap_or(default)
    }

    pub(super) fn tables(&self, key: &'static str) -> &'a [TableEntry] {
        debug_assert!(option::find(key).is_some(), "{key} is no option");
        self.read.borrow_mut().insert(key);
        self.raw.tables.get(key).map_or(&[], Vec::as_slice)
    }

    pub(super) fn refuse(&mut self, key: &str, given: &Given, what: &str) {
        let what = match &given.origin {
            Origin::Flag(_) => what.to_owned(),
            _ => format!("{key}: {what}"),
        };
        self.problems.add(Problem::new(given.origin.clone(), what));
    }

    pub(super) fn missing(&mut self, what: impl Into<String>) {
        self.problems.add(Problem::new(Origin::Nowhere, what));
    }

    #[cfg(test)]
    pub(super) fn read_keys(&self) -> BTreeSet<&'static str> {
        self.read.borrow().clone()
    }
}

//! A copy of a table that a tool builds beside it, to take the table's place by its name (gh-ost, pt-online-schema-change).
//!
//! The copy's rows are the table's, so that nothing of them is replicated before it is the table. What it looks like is followed from
//! statement to statement, as a part of the table's own schema: migrations take days, and the pipeline may stop in between.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Column, TableName, TableSchema};

/// The copy, as it is so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shadow {
    /// Its name until it has the table's.
    pub table: TableName,
    /// As [`TableSchema::character_set`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub character_set: Option<String>,
    /// As [`TableSchema::columns`]: those that the table has keep their numbers, whatever they are called, and others have numbers
    /// that no column of the table has.
    pub columns: Vec<Column>,
    /// As [`TableSchema::key`].
    pub key: Vec<usize>,
    /// Why the table's rows in the lake cannot stay once the copy is the table, in words for a message. None: they can, as far as
    /// the schemas allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The table has left its name already, and there is none of it until the copy has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaited: bool,
    /// Since when, by the source's clock: microseconds since 1970-01-01 UTC.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub awaited_since: i64,
    /// What the log had of the tool at work since the copy was made.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub traces: BTreeSet<Trace>,
}

/// A sign of the tool that builds a copy: what else has its name may have been filled with anything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trace {
    /// The tool wrote to the log that it keeps of its own work in a table beside the copy.
    Changelog,
    /// A trigger of the table writes rows that are inserted to the copy too. Its name, and so below.
    Inserts(TableName),
    /// The same of rows that are updated.
    Updates(TableName),
    /// The same of rows that are deleted.
    Deletes(TableName),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(time: &i64) -> bool {
    *time == 0
}

impl TableSchema {
    /// The table while a copy of it begins to be built, which is like it.
    #[must_use]
    pub fn with_shadow(&self, table: TableName) -> Self {
        let shadow = Shadow {
            table,
            character_set: self.character_set.clone(),
            columns: self.columns.clone(),
            key: self.key.clone(),
            refused: None,
            awaited: false,
            awaited_since: 0,
            traces: BTreeSet::new(),
        };
        Self { shadow: Some(Box::new(shadow)), ..self.clone() }
    }

    /// The copy as if it were the table. None where none is known.
    pub fn of_shadow(&self) -> Option<Self> {
        let Shadow { character_set, columns, key, .. } = (**self.shadow.as_ref()?).clone();
        let swaps = self.swaps.saturating_add(1);
        Some(Self { character_set, columns, key, shadow: None, swaps, ..self.clone() })
    }
}

//! Checkpoints: what was staged, what is intended, and what a table in the lake says about itself.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Position, SourceIdentity, StopReason, TableName, TableSchema};

/// Names a checkpoint. Random, minted with the intent, so that a table's recorded id tells without doubt whose commit it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckpointId(pub Uuid);

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for CheckpointId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// A compact name of a set of tables, each as one load has made it: equal exactly when the sets are. A table that was read again
/// is another member, so that nothing said of it before counts any more, be it of another log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberDigest(pub Uuid);

impl MemberDigest {
    /// The digest of a set of tables, each with the id of its load, in whatever order they are given.
    pub fn of<'a>(tables: impl IntoIterator<Item = (&'a TableName, CheckpointId)>) -> Self {
        let mut tables: Vec<_> = tables.into_iter().collect();
        tables.sort_unstable();
        tables.dedup();
        let mut bytes = Vec::new();
        for (table, load) in &tables {
            for part in [&table.schema, &table.name] {
                bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
                bytes.extend_from_slice(part.as_bytes());
            }
            bytes.extend_from_slice(load.0.as_bytes());
        }
        Self(Uuid::new_v5(&Uuid::NAMESPACE_OID, &bytes))
    }
}

impl fmt::Display for MemberDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl FromStr for MemberDigest {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// Files written for one future snapshot of one table; invisible until a commit carries them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StagedDelta {
    /// Whether the snapshot replaces everything the table held: TRUNCATE, and loads.
    pub replace: bool,
    /// Rows in the data files.
    pub rows: u64,
    /// Keys in the equality-delete files.
    pub deletes: u64,
    /// Whether its snapshot gives the table another schema.
    #[serde(default)]
    pub reshapes: bool,
    /// Values read for it that became NULL because the lake cannot hold them; whoever had it written says so.
    #[serde(default)]
    pub nulled: u64,
    /// As `nulled`, of values that became the nearest one that the lake holds.
    #[serde(default)]
    pub clamped: u64,
    /// Changes of its table up to its last one, where the table keeps a log; whoever had it written says so.
    #[serde(default)]
    pub changes: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Every file written, manifests included, by its path in the lake.
    pub files: Vec<String>,
    /// What the lake needs to commit these files, in its own words; survives a restart through the intent.
    pub body: serde_json::Value,
}

impl StagedDelta {
    /// Whether committing it would change nothing.
    pub fn is_empty(&self) -> bool {
        !self.replace && !self.reshapes && self.rows == 0 && self.deletes == 0
    }
}

/// One table's part of a checkpoint: its changes in (`low`, `high`], to be put on the table as it stands at `base`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableIntent {
    /// The table.
    pub table: TableName,
    /// The checkpoint the table must record when this part is committed.
    pub base: CheckpointId,
    /// The table was complete up to here before.
    pub low: Position,
    /// And is complete up to here afterwards.
    pub high: Position,
    /// The schema the rows have, in force at `high`.
    pub schema: Arc<TableSchema>,
    /// One snapshot each, in order, in one catalog commit.
    pub deltas: Vec<StagedDelta>,
}

/// A checkpoint as it is remembered before the first of its tables is committed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointIntent {
    /// Recorded by every table that committed its part.
    pub id: CheckpointId,
    /// End of the checkpoint before.
    pub start: Position,
    /// End of the last transaction in it.
    pub end: Position,
    /// The tables with changes in it.
    pub tables: Vec<TableIntent>,
    /// All tables whose every change up to `end` is in it or before it, changed or not. It counts for no other.
    pub covers: Vec<TableName>,
}

/// What the last data commit of calve wrote on a table, in its properties and in the snapshot's summary alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The checkpoint committed.
    pub checkpoint: CheckpointId,
    /// The table's rows equal the source's at this position.
    pub position: Position,
    /// The source's schema of the table at that position.
    pub schema: Arc<TableSchema>,
    /// The log the position is of.
    pub source: SourceIdentity,
    /// The id of the load that the table's rows began with.
    pub load: CheckpointId,
    /// Changes since that load, where the table keeps a log of them: the next one has the number after this.
    pub changes: u64,
}

/// "All tables of this set were committed up to this position", as recorded in the lake by one of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompleteTo {
    /// The tables it speaks for, and for no other.
    pub members: MemberDigest,
    /// All of them are complete up to here.
    pub position: Position,
}

/// The mark of a table that cannot go on: durable in the lake before anything passes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopMark {
    /// The table is complete up to here, if anything was ever loaded into it.
    pub at: Option<Position>,
    /// Why, and the way out.
    pub reason: StopReason,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_names_a_set() {
        let (a, b) = (TableName::new("public", "a"), TableName::new("public", "b"));
        let (first, again) = (CheckpointId(Uuid::from_u128(1)), CheckpointId(Uuid::from_u128(2)));
        let of = |tables: &[&TableName]| MemberDigest::of(tables.iter().map(|table| (*table, first)));
        assert_eq!(of(&[&a, &b]), of(&[&b, &a, &b]));
        assert_ne!(of(&[&a, &b]), of(&[&a]));
        let (joined, split) = (TableName::new("x", "yz"), TableName::new("xy", "z"));
        assert_ne!(of(&[&joined]), of(&[&split]));
        assert_ne!(of(&[&a, &b]), MemberDigest::of([(&a, first), (&b, again)]));
        let digest = of(&[&a]);
        assert_eq!(digest.to_string().parse(), Ok(digest));
    }
}

//! Tables of the source that are merged into one table in the lake.
//!
//! To engine and lake a merged table is one table, whose key begins with the column that says where a row comes from. Of its members
//! the source alone knows, and keeps in the schema (and so in the stamp) which there were at its position, and how rows of each lie in
//! the log there.

use serde::{Deserialize, Serialize};

use crate::{Column, TableName, TableSchema};

/// Members of a merged table that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Members {
    /// Their names, ascending.
    pub tables: Vec<TableName>,
    /// What each of them looks like.
    pub shape: MemberShape,
}

/// What a member of a merged table looks like at the source. Its columns are those of the merged table by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberShape {
    /// As [`TableSchema::character_set`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub character_set: Option<String>,
    /// In the source's order, with numbers of the member's own.
    pub columns: Vec<Column>,
    /// Indexes into `columns`, in the key's order.
    pub key: Vec<usize>,
    /// Columns of the merged table that it had and has no longer: its rows in the lake may have values in them, as rows have of any
    /// column that was dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Its texts have the character set of its database, which the log has not said: it is taken to be that of the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guessed_character_set: bool,
}

impl TableSchema {
    /// Whether its rows are those of several tables of the source.
    pub fn is_merged(&self) -> bool {
        !self.members.is_empty()
    }

    /// What a member looks like; None where the table is none.
    pub fn member(&self, table: &TableName) -> Option<&MemberShape> {
        self.members.iter().find(|alike| alike.tables.contains(table)).map(|alike| &alike.shape)
    }

    /// Every member.
    pub fn member_tables(&self) -> impl Iterator<Item = &TableName> {
        self.members.iter().flat_map(|alike| &alike.tables)
    }

    /// Columns that some member has lost, each with the first such member.
    pub fn lost_columns(&self) -> impl Iterator<Item = (&str, &TableName)> {
        let all = self.members.iter().filter_map(|alike| alike.tables.first().map(|table| (table, &alike.shape.lost)));
        all.flat_map(|(table, lost)| lost.iter().map(move |column| (column.as_str(), table)))
    }
}

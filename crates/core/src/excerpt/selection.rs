//! Columns by their names: those that are had, or those that are not.

use std::fmt;

/// Names of columns: one, or with stars, each of which stands for any text. In double quotes a star is a star.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnPattern(String);

impl ColumnPattern {
    /// As it is written.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The name, where it is of one column.
    pub fn exact(&self) -> Option<&str> {
        let quoted = self.0.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        quoted.or_else(|| (!self.0.contains('*')).then_some(self.0.as_str()))
    }

    /// Whether the column is one of them. Case counts.
    pub fn matches(&self, column: &str) -> bool {
        if let Some(name) = self.exact() {
            return name == column;
        }
        let mut pieces = self.0.split('*');
        let (first, last) = (pieces.next().unwrap_or(""), pieces.next_back().unwrap_or(""));
        let Some(inside) = column.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else { return false };
        // Each piece as early as it can be, which leaves most to those after it.
        let after = |rest: &str, piece: &str| rest.find(piece).map(|at| at + piece.len());
        pieces.try_fold(inside, |rest, piece| rest.get(after(rest, piece)?..)).is_some()
    }
}

impl fmt::Display for ColumnPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which columns of a table the lake gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ColumnSelection {
    /// All.
    #[default]
    All,
    /// These.
    Only(Vec<ColumnPattern>),
    /// All but these.
    Without(Vec<ColumnPattern>),
}

impl ColumnSelection {
    /// Whether a column is left out.
    pub fn leaves_out(&self, column: &str) -> bool {
        match self {
            Self::All => false,
            Self::Only(patterns) => !patterns.iter().any(|pattern| pattern.matches(column)),
            Self::Without(patterns) => patterns.iter().any(|pattern| pattern.matches(column)),
        }
    }

    /// The option, and what it lists.
    pub(super) fn listed(&self) -> (&'static str, &[ColumnPattern]) {
        match self {
            Self::All => ("", &[]),
            Self::Only(patterns) => ("include_columns", patterns),
            Self::Without(patterns) => ("exclude_columns", patterns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, matching, other) in [
            ("note", vec!["note"], vec!["notes", "Note", "a_note"]),
            ("note*", vec!["note", "notes"], vec!["a_note"]),
            ("*_raw", vec!["_raw", "a_raw"], vec!["a_raw2", "raw"]),
            ("a*b*c", vec!["abc", "a1b2c", "abbc"], vec!["ab", "acb", "bac"]),
            ("*", vec!["", "x"], vec![]),
            ("ab*ba", vec!["abba", "abxba"], vec!["aba"]),
            ("\"a*\"", vec!["a*"], vec!["ab"]),
        ] {
            let pattern = ColumnPattern::new(pattern);
            assert!(matching.iter().all(|name| pattern.matches(name)), "{pattern} {matching:?}");
            assert!(!other.iter().any(|name| pattern.matches(name)), "{pattern} {other:?}");
        }
        let names = vec![ColumnPattern::new("a*")];
        assert!(ColumnSelection::Without(names.clone()).leaves_out("ab"));
        assert!(!ColumnSelection::Only(names.clone()).leaves_out("ab") && ColumnSelection::Only(names).leaves_out("b"));
    }
}

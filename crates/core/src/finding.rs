//! What stands in the way of replicating, in words, with what mends it.

use std::fmt;

/// Whether a finding stops the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Replication works, and something will go wrong later or is left out.
    Warning,
    /// Replication cannot work.
    Error,
}

/// One thing that `calve check` has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it stops the pipeline.
    pub severity: Severity,
    /// The thing, and what is wrong with it.
    pub what: String,
    /// The statement to paste or the setting to change.
    pub remedy: String,
}

impl Finding {
    /// Replication cannot work before this is mended.
    pub fn error(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Error, what: what.into(), remedy: remedy.into() }
    }

    /// Replication works, less than well.
    pub fn warning(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, what: what.into(), remedy: remedy.into() }
    }
}

/// In one line.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.remedy)
    }
}

//! Errors that cross a port: what kind it is decides what the supervisor does, the rest is for the operator.

use std::fmt;

/// The result of a port call.
pub type Result<T> = std::result::Result<T, Error>;

/// What the operator or the supervisor can do about an error. Nothing else decides whether a pipeline is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Something outside is unwell (network, catalog, disk): tried again with backoff, nothing is lost meanwhile.
    Retry,
    /// The configuration or a precondition is wrong: stops, with the setting or statement that mends it.
    Config,
    /// The log no longer holds, or no longer is, what the lake recorded: stops, a re-load is the way out.
    SourceGone,
    /// Somebody else works on the same pipeline or table.
    Conflict,
    /// Bytes that should be ours are not what was written.
    Corrupt,
    /// An invariant of calve itself does not hold.
    Bug,
}

impl ErrorKind {
    /// The exit code of the process that ends with an error of this kind.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Bug => 1,
            Self::Config => 2,
            Self::SourceGone => 3,
            Self::Conflict => 4,
            Self::Corrupt => 5,
            Self::Retry => 6,
        }
    }
}

/// An error with its kind, one sentence for the operator, and the cause beneath it.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync + 'static>>,
}

impl Error {
    /// `message` names the table, file or option, says what is wrong, and what mends it.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// As [`Error::new`], keeping the cause.
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
    ) -> Self {
        Self { kind, message: message.into(), source: Some(source.into()) }
    }

    /// What can be done about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}

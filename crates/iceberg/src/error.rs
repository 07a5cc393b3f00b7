//! What the libraries beneath report, as errors with a kind.

use calve_core::{Error, ErrorKind};

/// A failure of reading or writing files: what may be well again in a while, unless the operator must mend it.
pub(crate) fn iceberg_retry(message: impl Into<String>, cause: iceberg::Error) -> Error {
    with_cause(crate::storage::kind_of(&cause), message, cause)
}

/// Bytes that calve or another writer wrote, and that cannot be read as what they should be.
pub(crate) fn iceberg_corrupt(message: impl Into<String>, cause: iceberg::Error) -> Error {
    with_cause(ErrorKind::Corrupt, message, cause)
}

/// What cannot happen to values that calve itself made.
pub(crate) fn iceberg_bug(message: impl Into<String>, cause: iceberg::Error) -> Error {
    with_cause(ErrorKind::Bug, message, cause)
}

fn with_cause(kind: ErrorKind, message: impl Into<String>, cause: iceberg::Error) -> Error {
    Error::with_source(kind, format!("{}: {}", message.into(), cause.message()), cause)
}

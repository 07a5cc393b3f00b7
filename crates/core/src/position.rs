//! Positions in a source's log. A [`Position`] is always the end of a committed transaction, never inside one.
//!
//! Positions form a lattice, not a line: a Postgres LSN is ordered, a GTID set is not. So the engine never compares them
//! with `<`; it asks whether one [covers](Position::covers) another, and takes [`meet`](Position::meet) and
//! [`join`](Position::join).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A Postgres log sequence number: a byte offset in the WAL. Shown and parsed as Postgres does (`16/B374D848`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

/// A text that is not a position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a position: expected {expected}")]
pub struct ParsePositionError {
    text: String,
    expected: &'static str,
}

impl FromStr for Lsn {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let error = || ParsePositionError { text: text.to_owned(), expected: "an LSN such as 16/B374D848" };
        let (high, low) = text.split_once('/').ok_or_else(error)?;
        let part = |digits: &str| {
            let plain = !digits.is_empty() && digits.len() <= 8 && digits.bytes().all(|b| b.is_ascii_hexdigit());
            if plain { u64::from_str_radix(digits, 16).ok() } else { None }.ok_or_else(error)
        };
        Ok(Self(part(high)? << 32 | part(low)?))
    }
}

/// The end of a committed transaction in a source's log.
///
/// Written as `postgres:16/B374D848`, in stamps and in local state alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// The end LSN of a commit record: the first byte after it. Monotone in commit order.
    Postgres(Lsn),
}

/// Names a transaction when it begins, before its end is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionPoint {
    /// The LSN of the commit record itself (`final_lsn` of pgoutput's Begin); its end is strictly greater.
    Postgres {
        /// Start of the commit record.
        commit_lsn: Lsn,
    },
}

impl Position {
    /// Whether everything up to `other` is also at or below `self`.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Postgres(a), Self::Postgres(b)) => a >= b,
        }
    }

    /// Whether the transaction named is at or below this position, so that it is already part of what the position says.
    pub fn covers_transaction(&self, transaction: &TransactionPoint) -> bool {
        match (self, transaction) {
            // A position is the end of some commit record; records do not overlap.
            (Self::Postgres(end), TransactionPoint::Postgres { commit_lsn }) => commit_lsn < end,
        }
    }

    /// The greatest position covered by both: what is certainly complete in each.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Postgres(a), Self::Postgres(b)) => Self::Postgres(*a.min(b)),
        }
    }

    /// The smallest position that covers both.
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Postgres(a), Self::Postgres(b)) => Self::Postgres(*a.max(b)),
        }
    }

    /// Bytes of log between `self` and a later position, where the source's positions measure bytes.
    pub fn bytes_until(&self, later: &Self) -> Option<u64> {
        match (self, later) {
            (Self::Postgres(a), Self::Postgres(b)) => Some(b.0.saturating_sub(a.0)),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres(lsn) => write!(f, "postgres:{lsn}"),
        }
    }
}

impl FromStr for Position {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("postgres", lsn)) => Ok(Self::Postgres(lsn.parse()?)),
            _ => Err(ParsePositionError { text: text.to_owned(), expected: "postgres:LSN" }),
        }
    }
}

impl Serialize for Position {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_read_back_as_written() {
        for lsn in [0, 1, 0xFFFF_FFFF, 0x1_0000_0000, 0x16_B374_D848, u64::MAX] {
            let position = Position::Postgres(Lsn(lsn));
            assert_eq!(position.to_string().parse(), Ok(position.clone()));
            assert_eq!(serde_json::from_str::<Position>(&serde_json::to_string(&position).unwrap()).unwrap(), position);
        }
    }

    #[test]
    fn what_is_no_position_is_refused() {
        for text in [
            "",
            "postgres:",
            "postgres:1",
            "postgres:+1/0",
            "postgres:123456789/0",
            "mysql:1/2",
            "1/2",
            "postgres:1/2/3",
        ] {
            assert!(text.parse::<Position>().is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn a_transaction_is_covered_once_its_commit_record_lies_before_the_position() {
        let position = Position::Postgres(Lsn(100));
        for (commit, covered) in [(0, true), (99, true), (100, false), (101, false)] {
            let transaction = TransactionPoint::Postgres { commit_lsn: Lsn(commit) };
            assert_eq!(position.covers_transaction(&transaction), covered, "commit record at {commit}");
        }
    }
}

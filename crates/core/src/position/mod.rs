//! Positions in a source's log. A [`Position`] is always the end of a committed transaction, never inside one.
//!
//! Positions form a lattice, not a line: a Postgres LSN is ordered, a GTID set is not. So the engine never compares them
//! with `<`; it asks whether one [covers](Position::covers) another, and takes [`meet`](Position::meet) and
//! [`join`](Position::join).

mod gtid;
mod mysql;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use gtid::{GtidInterval, GtidSet, GtidSource};
pub use mysql::{BinlogOffset, BinlogPosition, GtidPosition, LastGtid, MariaDbGtid, MariaDbPoint, MariaDbPosition};

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

impl ParsePositionError {
    pub(crate) fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.to_owned(), expected }
    }
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
/// Written with its kind before it, in stamps and in local state alike: `postgres:16/B374D848`, `mysql:GTIDSET`,
/// `mariadb:0-1-100`, `binlog:binlog.000012:157;created=1700000000`. Positions of different kinds do not cover each other,
/// except that a GTID position with its place beside it covers the places before that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// The end LSN of a commit record: the first byte after it. Monotone in commit order.
    Postgres(Lsn),
    /// MySQL with GTIDs.
    MySql(GtidPosition),
    /// MariaDB, by replication domain.
    MariaDb(MariaDbPosition),
    /// MySQL without GTIDs.
    Binlog(BinlogPosition),
}

/// Names a transaction when it begins, before its end is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionPoint {
    /// The LSN of the commit record itself (`final_lsn` of pgoutput's Begin); its end is strictly greater.
    Postgres {
        /// Start of the commit record.
        commit_lsn: Lsn,
    },
    /// MySQL with GTIDs.
    MySql {
        /// Where it was committed first.
        source: GtidSource,
        /// Its number there.
        number: u64,
    },
    /// MariaDB.
    MariaDb {
        /// Its replication domain.
        domain: u32,
        /// Its number there.
        sequence: u64,
    },
    /// MySQL without GTIDs: the start of its first event; its end is strictly greater.
    Binlog(BinlogOffset),
}

impl Position {
    /// Whether everything up to `other` is also at or below `self`.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Postgres(a), Self::Postgres(b)) => a >= b,
            (Self::MySql(a), Self::MySql(b)) => a.executed.is_superset(&b.executed),
            (Self::MariaDb(a), Self::MariaDb(b)) => a.covers(b),
            (Self::Binlog(a), Self::Binlog(b)) => a.applied >= b.applied,
            // Whoever knows where it stands in the log knows whether that is at or beyond a place in it.
            (Self::MySql(_) | Self::MariaDb(_), Self::Binlog(b)) => {
                self.binlog_offset().is_some_and(|at| *at >= b.applied)
            }
            _ => false,
        }
    }

    /// Whether the transaction named is at or below this position, so that it is already part of what the position says.
    pub fn covers_transaction(&self, transaction: &TransactionPoint) -> bool {
        match (self, transaction) {
            // A position is the end of some commit record; records do not overlap.
            (Self::Postgres(end), TransactionPoint::Postgres { commit_lsn }) => commit_lsn < end,
            (Self::MySql(at), TransactionPoint::MySql { source, number }) => at.executed.contains(source, *number),
            (Self::MariaDb(at), TransactionPoint::MariaDb { domain, sequence }) => {
                at.domains.get(domain).is_some_and(|point| point.applied.sequence >= *sequence)
            }
            (Self::Binlog(end), TransactionPoint::Binlog(start)) => *start < end.applied,
            _ => false,
        }
    }

    /// The greatest position covered by both: what is certainly complete in each. Where their kinds differ, the one that the
    /// other covers, or `self` where neither does.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Postgres(a), Self::Postgres(b)) => Self::Postgres(*a.min(b)),
            (Self::MySql(a), Self::MySql(b)) => Self::MySql(a.meet(b)),
            (Self::MariaDb(a), Self::MariaDb(b)) => Self::MariaDb(a.meet(b)),
            (Self::Binlog(a), Self::Binlog(b)) => Self::Binlog(if b.applied < a.applied { b } else { a }.clone()),
            _ => if self.covers(other) { other } else { self }.clone(),
        }
    }

    /// The smallest position that covers both. Where their kinds differ, the one that covers the other, or `self` where neither
    /// does.
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Postgres(a), Self::Postgres(b)) => Self::Postgres(*a.max(b)),
            (Self::MySql(a), Self::MySql(b)) => Self::MySql(a.join(b)),
            (Self::MariaDb(a), Self::MariaDb(b)) => Self::MariaDb(a.join(b)),
            (Self::Binlog(a), Self::Binlog(b)) => Self::Binlog(if b.applied > a.applied { b } else { a }.clone()),
            _ => if other.covers(self) { other } else { self }.clone(),
        }
    }

    /// Bytes of log between `self` and a later position, where the source's positions measure bytes within one file.
    pub fn bytes_until(&self, later: &Self) -> Option<u64> {
        if let (Self::Postgres(a), Self::Postgres(b)) = (self, later) {
            return Some(b.0.saturating_sub(a.0));
        }
        let (a, b) = (self.binlog_offset()?, later.binlog_offset()?);
        (a.file == b.file).then(|| b.offset.saturating_sub(a.offset))
    }

    /// Where a binary log stood at this position, if it is known.
    pub fn binlog_offset(&self) -> Option<&BinlogOffset> {
        match self {
            Self::Postgres(_) => None,
            Self::MySql(at) => at.at.as_ref(),
            Self::MariaDb(at) => at.at.as_ref(),
            Self::Binlog(at) => Some(&at.applied),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres(lsn) => write!(f, "postgres:{lsn}"),
            Self::MySql(at) => write!(f, "mysql:{at}"),
            Self::MariaDb(at) => write!(f, "mariadb:{at}"),
            Self::Binlog(at) => write!(f, "binlog:{at}"),
        }
    }
}

impl FromStr for Position {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("postgres", lsn)) => Ok(Self::Postgres(lsn.parse()?)),
            Some(("mysql", at)) => Ok(Self::MySql(at.parse()?)),
            Some(("mariadb", at)) => Ok(Self::MariaDb(at.parse()?)),
            Some(("binlog", at)) => Ok(Self::Binlog(at.parse()?)),
            _ => Err(ParsePositionError::new(text, "postgres:LSN, mysql:GTIDSET, mariadb:GTIDS or binlog:FILE:OFFSET")),
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

    const SERVER: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn at(text: &str) -> Position {
        text.replace("SERVER", SERVER).parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn positions_of_binary_logs_read_back_as_written() {
        for text in [
            "mysql:",
            "mysql:SERVER:1-5:7",
            "mysql:SERVER:1-5;last=SERVER:5/1700000000000001@binlog.000002:157",
            "mysql:SERVER:tag:1-5;last=SERVER:tag:5/1",
            "mysql:SERVER:1-5;open=SERVER:2:4;last=SERVER:5/1@b.000001:4",
            "mariadb:",
            "mariadb:0-1-100,1-2-5",
            "mariadb:0-1-100,1-2-5;resume=0-3-90@mysqld-bin.000002:157",
            "mariadb:0-1-100;resume=0-0-0",
            "binlog:binlog.000012:157;created=1700000000",
            "binlog:odd;name:x.000012:157;created=1;resume=odd;name:x.000010:4",
        ] {
            assert_eq!(at(text).to_string(), text.replace("SERVER", SERVER));
            assert_eq!(at(&at(text).to_string()), at(text));
        }
    }

    #[test]
    fn positions_form_a_lattice() {
        for (a, b, meet, join) in [
            ("postgres:0/1", "postgres:0/2", "postgres:0/1", "postgres:0/2"),
            ("mysql:SERVER:1-5", "mysql:SERVER:1-3:9", "mysql:SERVER:1-3", "mysql:SERVER:1-5:9"),
            (
                "mysql:SERVER:1-5;last=SERVER:5/1@b.000001:9",
                "mysql:SERVER:1-6;last=SERVER:6/2@b.000002:4",
                "mysql:SERVER:1-5;last=SERVER:5/1@b.000001:9",
                "mysql:SERVER:1-6;last=SERVER:6/2@b.000002:4",
            ),
            // 3 is prepared, 6 decides it.
            (
                "mysql:SERVER:1-5;open=SERVER:3",
                "mysql:SERVER:1-6",
                "mysql:SERVER:1-5;open=SERVER:3",
                "mysql:SERVER:1-6",
            ),
            (
                "mysql:SERVER:1-2",
                "mysql:SERVER:1-3;open=SERVER:3",
                "mysql:SERVER:1-2",
                "mysql:SERVER:1-3;open=SERVER:3",
            ),
            ("mariadb:0-1-5,1-1-2", "mariadb:0-2-7", "mariadb:0-1-5", "mariadb:0-2-7,1-1-2"),
            ("mariadb:0-1-5;resume=0-1-2", "mariadb:0-1-7", "mariadb:0-1-5;resume=0-1-2", "mariadb:0-1-7"),
            (
                "binlog:b.000009:9;created=1",
                "binlog:b.000010:4;created=2;resume=b.000008:4",
                "binlog:b.000009:9;created=1",
                "binlog:b.000010:4;created=2;resume=b.000008:4",
            ),
            (
                "binlog:b.000009:9;created=1",
                "mysql:SERVER:1@b.000010:4",
                "binlog:b.000009:9;created=1",
                "mysql:SERVER:1@b.000010:4",
            ),
        ] {
            let (a, b) = (at(a), at(b));
            for (a, b) in [(&a, &b), (&b, &a)] {
                assert_eq!((a.meet(b), a.join(b)), (at(meet), at(join)), "{a} and {b}");
                assert!(a.join(b).covers(a) && a.covers(&a.meet(b)));
                assert_eq!(a.covers(b), a.meet(b).covers(b), "{a} covers {b}");
            }
        }
    }

    #[test]
    fn positions_of_other_kinds_are_of_other_logs() {
        let kinds = ["postgres:0/1", "mysql:", "mariadb:", "binlog:b.000001:4;created=1"].map(at);
        for (i, a) in kinds.iter().enumerate() {
            for (j, b) in kinds.iter().enumerate() {
                assert_eq!(a.covers(b), i == j, "{a} covers {b}");
            }
        }
    }

    #[test]
    fn a_position_with_its_place_covers_the_places_before_it() {
        for (position, covered) in [
            ("mysql:SERVER:1@b.000002:157", true),
            ("mysql:SERVER:1@b.000002:156", false),
            ("mysql:SERVER:1", false),
            ("mariadb:0-1-1@b.000010:4", true),
            ("mariadb:0-1-1@b.000001:999", false),
        ] {
            assert_eq!(at(position).covers(&at("binlog:b.000002:157;created=0")), covered, "{position}");
        }
    }

    #[test]
    fn transactions_of_binary_logs_are_covered_by_name() {
        let gtid = |number| TransactionPoint::MySql { source: GtidSource::server(SERVER.parse().unwrap()), number };
        let maria = |domain, sequence| TransactionPoint::MariaDb { domain, sequence };
        let start = |offset| TransactionPoint::Binlog(BinlogOffset::new("b.000002", offset));
        for (position, transaction, covered) in [
            ("mysql:SERVER:1-3:5", gtid(3), true),
            ("mysql:SERVER:1-3:5", gtid(4), false),
            ("mariadb:0-1-5", maria(0, 5), true),
            ("mariadb:0-1-5", maria(0, 6), false),
            ("mariadb:0-1-5", maria(1, 1), false),
            ("binlog:b.000002:157;created=1", start(156), true),
            ("binlog:b.000002:157;created=1", start(157), false),
            ("binlog:b.000010:4;created=1", start(999), true),
            ("postgres:0/1", gtid(1), false),
        ] {
            assert_eq!(at(position).covers_transaction(&transaction), covered, "{position} covers {transaction:?}");
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
            "mysql:3e11fa47-71ca-11e1-9e33-c80aa9429562:0",
            "mariadb:0-1",
            "mariadb:0-1-2,0-1-3",
            "mariadb:0-1-2;resume=1-1-1",
            "binlog:binlog.000001:4",
            "binlog:binlog:4;created=1",
            "binlog:binlog.000001:x;created=1",
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

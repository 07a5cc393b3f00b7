//! Where reading stands in a binary log, in the words that positions are written in.
//!
//! Three ways of naming a place: MySQL's GTID sets, MariaDB's domains, and file and offset where there are no GTIDs. Beside
//! each, what is prepared by XA and not decided: its rows must be read again after a restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use calve_core::{
    BinlogOffset, BinlogPosition, Error, ErrorKind, GtidPosition, GtidSource, LastGtid, MariaDbGtid, MariaDbPoint,
    MariaDbPosition, Origin, Position, Result, TransactionPoint,
};

/// Names a transaction when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TransactionName {
    /// None for an anonymous one.
    pub(crate) gtid: Option<TransactionGtid>,
    /// Where its first event begins.
    pub(crate) start: BinlogOffset,
}

impl TransactionName {
    /// What a log of changes says of it: where it begins in the server's log, and its GTID.
    pub(crate) fn origin(&self, committed_at: i64) -> Origin {
        let transaction = self.gtid.as_ref().map(|gtid| match gtid {
            TransactionGtid::MySql { source, number, .. } => format!("{source}:{number}"),
            TransactionGtid::MariaDb { domain, gtid } => format!("{domain}-{}-{}", gtid.server, gtid.sequence),
        });
        Origin { position: self.start.to_string(), transaction, committed_at }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TransactionGtid {
    /// `committed_at`: on the server that committed it first, microseconds since 1970-01-01 UTC.
    MySql {
        source: GtidSource,
        number: u64,
        committed_at: u64,
    },
    MariaDb {
        domain: u32,
        gtid: MariaDbGtid,
    },
}

#[derive(Clone, Debug)]
enum Naming {
    Gtid(GtidPosition),
    MariaDb {
        domains: Arc<BTreeMap<u32, MariaDbPoint>>,
        /// Transactions prepared and not decided: domain, number, and what came before it in the domain.
        open: Vec<(u32, u64, Option<MariaDbGtid>)>,
        /// The last transaction of each domain that came, or before which reading began.
        passed: BTreeMap<u32, MariaDbGtid>,
    },
    Offset {
        applied: BinlogOffset,
        /// When the file of `applied` was begun.
        created: u32,
        /// Starts of transactions prepared and not decided.
        open: Vec<BinlogOffset>,
    },
}

/// Where reading stands.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    naming: Naming,
    /// End of the last event that came; None before the first of this connection.
    at: Option<BinlogOffset>,
    /// Up to here the log holds nothing beyond the position that reading began at.
    known: Option<BinlogOffset>,
    /// When the present file was begun, seconds since 1970-01-01 UTC.
    created: u32,
}

impl Place {
    /// Reading begins at this position, which is one of a binary log.
    pub(crate) fn new(from: &Position) -> Result<Self> {
        let naming = match from {
            Position::MySql(at) => Naming::Gtid(at.clone()),
            Position::MariaDb(at) => {
                let begins = |(domain, point): (&u32, &MariaDbPoint)| {
                    Some((*domain, point.resume.unwrap_or(Some(point.applied))?))
                };
                let passed = at.domains.iter().filter_map(begins).collect();
                Naming::MariaDb { domains: Arc::clone(&at.domains), open: Vec::new(), passed }
            }
            Position::Binlog(at) => {
                Naming::Offset { applied: at.applied.clone(), created: at.created, open: Vec::new() }
            }
            Position::Postgres(_) => {
                return Err(Error::new(ErrorKind::Config, format!("{from} is no position of MySQL or MariaDB")));
            }
        };
        let created = if let Position::Binlog(at) = from { at.created } else { 0 };
        Ok(Self { naming, at: None, known: None, created })
    }

    /// Up to this place the log of this very server holds nothing beyond the position that reading begins at. MariaDB does not
    /// say so before its first heartbeat: it sends the beginning of a file, and passes over what was read.
    pub(crate) fn know(&mut self, at: BinlogOffset) {
        self.known = Some(at);
    }

    /// End of the last event that came.
    pub(crate) fn at(&self) -> Option<&BinlogOffset> {
        self.at.as_ref()
    }

    /// What follows is in this file, from this offset on.
    pub(crate) fn rotate(&mut self, file: &str, offset: u64) {
        if self.at.as_ref().is_none_or(|at| *at.file != *file) {
            self.created = 0;
        }
        self.at = Some(BinlogOffset::new(file, offset));
    }

    /// The present file was begun then.
    pub(crate) fn file_begun(&mut self, seconds: u32) {
        self.created = seconds;
    }

    /// An event ended. `low` is the low half of its end; where it has none, 0, it added `size` bytes. Offsets only grow within
    /// a file.
    pub(crate) fn event_ended(&mut self, low: u32, size: u32) {
        if let Some(at) = &mut self.at {
            at.offset = if low == 0 { at.offset + u64::from(size) } else { whole_offset(at.offset, low) };
        }
    }

    /// The log was read up to here and nothing is there.
    pub(crate) fn heartbeat(&mut self, file: &str, offset: u64) {
        match &mut self.at {
            Some(at) if *at.file == *file => at.offset = at.offset.max(offset),
            _ => self.rotate(file, offset),
        }
    }

    /// The beginning of an event of this size that ends at the present place.
    pub(crate) fn start_of_event(&self, size: u32) -> BinlogOffset {
        let at = self.at.clone().unwrap_or_else(|| BinlogOffset::new("", 0));
        BinlogOffset { offset: at.offset.saturating_sub(size.into()), ..at }
    }

    /// The transaction in the words of the sink.
    pub(crate) fn point(&self, name: &TransactionName) -> Result<TransactionPoint> {
        match (&self.naming, &name.gtid) {
            (Naming::Gtid(_), Some(TransactionGtid::MySql { source, number, .. })) => {
                Ok(TransactionPoint::MySql { source: source.clone(), number: *number })
            }
            (Naming::MariaDb { .. }, Some(TransactionGtid::MariaDb { domain, gtid })) => {
                Ok(TransactionPoint::MariaDb { domain: *domain, sequence: gtid.sequence })
            }
            (Naming::Offset { .. }, _) => Ok(TransactionPoint::Binlog(name.start.clone())),
            _ => Err(Error::new(
                ErrorKind::SourceGone,
                format!(
                    "the transaction at {} has no GTID, but the log is read by GTIDs: gtid_mode was switched off for a while; \
                     set it to ON, then run `calve reload --all`",
                    name.start
                ),
            )),
        }
    }

    /// A transaction that the position holds already came again.
    pub(crate) fn came_again(&mut self, name: &TransactionName) {
        if let (Naming::MariaDb { passed, .. }, Some(TransactionGtid::MariaDb { domain, gtid })) =
            (&mut self.naming, &name.gtid)
        {
            passed.insert(*domain, *gtid);
        }
    }

    /// A transaction is over: committed, rolled back, or without anything of interest.
    pub(crate) fn ended(&mut self, name: &TransactionName) -> Result<()> {
        match (&mut self.naming, &name.gtid) {
            (Naming::Gtid(position), Some(TransactionGtid::MySql { source, number, committed_at })) => {
                Arc::make_mut(&mut position.executed).insert(source, *number);
                position.last = Some(LastGtid { source: source.clone(), number: *number, committed_at: *committed_at });
            }
            (Naming::MariaDb { domains, passed, .. }, Some(TransactionGtid::MariaDb { domain, gtid })) => {
                if let Some(point) = domains.get(domain)
                    && point.applied.sequence >= gtid.sequence
                {
                    return Err(Error::new(
                        ErrorKind::SourceGone,
                        format!(
                            "transaction {domain}-{}-{} came after {domain}-{}-{}: the numbers of domain {domain} went \
                             backward, so nothing proves that none is missing; run `calve reload --all`",
                            gtid.server, gtid.sequence, point.applied.server, point.applied.sequence
                        ),
                    ));
                }
                let resume = domains.get(domain).and_then(|point| point.resume);
                Arc::make_mut(domains).insert(*domain, MariaDbPoint { applied: *gtid, resume });
                passed.insert(*domain, *gtid);
            }
            (Naming::Offset { applied, created, .. }, _) => {
                if let Some(at) = &self.at {
                    *applied = at.clone();
                    *created = self.created;
                }
            }
            _ => {
                self.point(name)?;
            }
        }
        Ok(())
    }

    /// A transaction ends with XA PREPARE: its rows must be read again until it is decided. Said before its end is.
    pub(crate) fn prepared(&mut self, name: &TransactionName) {
        match (&mut self.naming, &name.gtid) {
            (Naming::Gtid(position), Some(TransactionGtid::MySql { source, number, .. })) => {
                Arc::make_mut(&mut position.open).insert(source, *number);
            }
            (Naming::MariaDb { domains, open, passed }, Some(TransactionGtid::MariaDb { domain, gtid })) => {
                open.push((*domain, gtid.sequence, passed.get(domain).copied()));
                set_resume(domains, open, *domain);
            }
            (Naming::Offset { open, .. }, _) => open.push(name.start.clone()),
            _ => {}
        }
    }

    /// A prepared transaction was committed or rolled back.
    pub(crate) fn decided(&mut self, name: &TransactionName) {
        match (&mut self.naming, &name.gtid) {
            (Naming::Gtid(position), Some(TransactionGtid::MySql { source, number, .. })) => {
                Arc::make_mut(&mut position.open).remove(source, *number);
            }
            (Naming::MariaDb { domains, open, .. }, Some(TransactionGtid::MariaDb { domain, gtid })) => {
                open.retain(|(d, sequence, _)| (d, sequence) != (domain, &gtid.sequence));
                set_resume(domains, open, *domain);
            }
            (Naming::Offset { open, .. }, _) => open.retain(|start| *start != name.start),
            _ => {}
        }
    }

    /// The position after the last transaction that is over.
    pub(crate) fn position(&self) -> Position {
        let at = self.at.as_ref().max(self.known.as_ref()).cloned();
        match &self.naming {
            Naming::Gtid(position) => Position::MySql(GtidPosition { at, ..position.clone() }),
            Naming::MariaDb { domains, .. } => Position::MariaDb(MariaDbPosition { domains: Arc::clone(domains), at }),
            Naming::Offset { applied, created, open } => Position::Binlog(BinlogPosition {
                applied: applied.clone(),
                resume: open.iter().min().cloned(),
                created: *created,
            }),
        }
    }

    /// Nothing but events without transactions came since the last: files and offsets may go on.
    pub(crate) fn pass_quiet_log(&mut self) {
        if let (Naming::Offset { applied, created, .. }, Some(at)) = (&mut self.naming, &self.at) {
            if *applied < *at {
                *applied = at.clone();
                *created = self.created;
            } else if applied.file == at.file && self.created != 0 {
                *created = self.created;
            }
        }
    }
}

/// The domain is to be read again from before its oldest open transaction.
fn set_resume(domains: &mut Arc<BTreeMap<u32, MariaDbPoint>>, open: &[(u32, u64, Option<MariaDbGtid>)], domain: u32) {
    let oldest = open.iter().filter(|(d, ..)| *d == domain).min_by_key(|(_, sequence, _)| *sequence);
    if let Some(point) = Arc::make_mut(domains).get_mut(&domain) {
        point.resume = oldest.map(|(_, _, before)| *before);
    }
}

/// The offset with these low 32 bits that is next after `before`: events carry no more, and files can be larger.
fn whole_offset(before: u64, low: u32) -> u64 {
    const HALF: u64 = 1 << 32;
    let offset = before & !(HALF - 1) | u64::from(low);
    match offset.checked_sub(before) {
        Some(_) => offset,
        // The low half began anew; or else the event is one of the file's first, sent before what was asked for.
        None if before - offset > HALF / 2 => offset + HALF,
        None => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn place(text: &str) -> Place {
        Place::new(&text.replace("SERVER", SERVER).parse().unwrap()).unwrap()
    }

    fn mysql(number: u64) -> TransactionName {
        let source = GtidSource::server(SERVER.parse().unwrap());
        let gtid = Some(TransactionGtid::MySql { source, number, committed_at: number * 10 });
        TransactionName { gtid, start: BinlogOffset::new("b.000001", number) }
    }

    fn maria(sequence: u64) -> TransactionName {
        let gtid = MariaDbGtid { server: 1, sequence };
        TransactionName {
            gtid: Some(TransactionGtid::MariaDb { domain: 0, gtid }),
            start: BinlogOffset::new("b.000001", sequence),
        }
    }

    fn plain(place: &Place, size: u32) -> TransactionName {
        TransactionName { gtid: None, start: place.start_of_event(size) }
    }

    #[track_caller]
    fn check(place: &Place, expected: &str) {
        assert_eq!(place.position().to_string(), expected.replace("SERVER", SERVER));
    }

    #[test]
    fn gtids_are_added_and_open_ones_are_kept_apart() {
        let mut place = place("mysql:SERVER:1-4");
        place.rotate("b.000001", 4);
        place.ended(&mysql(5)).unwrap();
        check(&place, "mysql:SERVER:1-5;last=SERVER:5/50@b.000001:4");
        place.ended(&mysql(6)).unwrap();
        place.prepared(&mysql(6));
        place.ended(&mysql(7)).unwrap();
        check(&place, "mysql:SERVER:1-7;open=SERVER:6;last=SERVER:7/70@b.000001:4");
        place.ended(&mysql(8)).unwrap();
        place.decided(&mysql(6));
        check(&place, "mysql:SERVER:1-8;last=SERVER:8/80@b.000001:4");
        assert!(place.point(&TransactionName { gtid: None, start: BinlogOffset::new("b.000001", 4) }).is_err());
    }

    #[test]
    fn domains_go_forward_and_resume_before_what_is_open() {
        let mut place = place("mariadb:0-1-4");
        place.prepared(&maria(5));
        place.ended(&maria(5)).unwrap();
        place.prepared(&maria(6));
        place.ended(&maria(6)).unwrap();
        check(&place, "mariadb:0-1-6;resume=0-1-4");
        place.ended(&maria(7)).unwrap();
        place.decided(&maria(5));
        check(&place, "mariadb:0-1-7;resume=0-1-5");
        place.decided(&maria(6));
        check(&place, "mariadb:0-1-7");
        assert!(place.ended(&maria(7)).is_err());
    }

    #[test]
    fn a_place_that_is_known_stands_until_reading_is_beyond_it() {
        let mut place = place("mariadb:0-1-4");
        let offset = |text: &str| text.parse::<BinlogOffset>().unwrap();
        let stands =
            |place: &Place, expected: &str| assert_eq!(place.position().binlog_offset(), Some(&offset(expected)));
        place.rotate("b.000002", 4);
        stands(&place, "b.000002:4");
        place.know(offset("b.000002:900"));
        stands(&place, "b.000002:900");
        place.event_ended(256, 0);
        stands(&place, "b.000002:900");
        assert_eq!(place.at(), Some(&offset("b.000002:256")));
        place.event_ended(1000, 0);
        stands(&place, "b.000002:1000");
        place.rotate("b.000003", 4);
        stands(&place, "b.000003:4");
    }

    #[test]
    fn what_came_again_and_is_open_is_read_again_once_more() {
        let mut place = place("mariadb:0-1-6;resume=0-1-4");
        place.prepared(&maria(5));
        place.came_again(&maria(5));
        place.came_again(&maria(6));
        check(&place, "mariadb:0-1-6;resume=0-1-4");
        place.ended(&maria(7)).unwrap();
        place.decided(&maria(5));
        check(&place, "mariadb:0-1-7");
    }

    #[test]
    fn offsets_count_to_the_end_of_what_is_over() {
        let mut place = place("binlog:b.000001:200;created=7");
        place.rotate("b.000001", 200);
        place.file_begun(7);
        place.event_ended(300, 0);
        let first = plain(&place, 50);
        assert_eq!(first.start, BinlogOffset::new("b.000001", 250));
        place.prepared(&first);
        place.event_ended(0, 100);
        place.ended(&first).unwrap();
        check(&place, "binlog:b.000001:400;created=7;resume=b.000001:250");
        place.rotate("b.000002", 4);
        place.file_begun(8);
        place.event_ended(126, 0);
        place.pass_quiet_log();
        check(&place, "binlog:b.000002:126;created=8;resume=b.000001:250");
        place.decided(&first);
        check(&place, "binlog:b.000002:126;created=8");
    }

    #[test]
    fn offsets_beyond_four_gigabytes_are_whole() {
        for (before, low, expected) in [
            (4, 100, 100),
            (0xFFFF_FF00, 0x10, 0x1_0000_0010),
            (0x1_0000_0010, 0x20, 0x1_0000_0020),
            (0x1_FFFF_FFFF, 0, 0x2_0000_0000),
            (500, 126, 500),
        ] {
            assert_eq!(whole_offset(before, low), expected, "{low:#x} after {before:#x}");
        }
    }
}

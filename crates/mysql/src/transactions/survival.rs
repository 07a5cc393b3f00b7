//! XA transactions that the log says are prepared and that the server lost.
//!
//! MariaDB's log and its engine need not have the same of a PREPARE when the server is killed, and its recovery goes by the
//! engine alone: what the log has and the engine has not is gone, and nothing that is written to the log later decides it. Its
//! place would have to be read again for ever. (MySQL makes the two equal when it starts.)
//!
//! The rule: transactions prepared in the log before a start of the server are asked for. Those that XA RECOVER does not
//! list, and that are not decided in the log by where it ended after the question, are gone. Were one of them decided all the
//! same, its rows would be looked for in the log as those of any that was prepared before reading began: giving one up can
//! cost a search or a reload of its tables, never a row.

use std::collections::BTreeSet;

use calve_core::BinlogOffset;

use super::Transactions;
use crate::binlog::Flavour;
use crate::ddl::Xid;

/// What is not known of prepared transactions since the server was started.
#[derive(Debug, Default)]
pub(super) struct Survival {
    /// Prepared before the last start, and not asked for yet.
    doubtful: BTreeSet<Xid>,
    /// Those that the server does not know, and where its log ended then.
    gone: Option<(BTreeSet<Xid>, BinlogOffset)>,
}

impl Survival {
    /// The transaction was decided, or another of its name is prepared now.
    pub(super) fn forget(&mut self, xid: &Xid) {
        self.doubtful.remove(xid);
        if let Some((gone, _)) = &mut self.gone {
            gone.remove(xid);
        }
    }
}

impl Transactions {
    /// The server was started here.
    pub(super) fn server_began(&mut self) {
        if self.flavour == Flavour::MariaDb {
            let doubtful = self.undecided.prepared.keys().cloned().collect();
            self.undecided.survival = Survival { doubtful, gone: None };
        }
    }

    /// Whether the server is to be asked which transactions it has prepared, see [`learn_prepared_now`](Self::learn_prepared_now).
    pub(crate) fn has_doubtful(&self) -> bool {
        !self.undecided.survival.doubtful.is_empty()
    }

    /// What XA RECOVER lists; `end` is where the log ended afterwards.
    pub(crate) fn learn_prepared_now(&mut self, listed: &BTreeSet<Xid>, end: BinlogOffset) {
        let doubtful = std::mem::take(&mut self.undecided.survival.doubtful);
        let gone: BTreeSet<Xid> = doubtful.difference(listed).cloned().collect();
        self.undecided.survival.gone = (!gone.is_empty()).then_some((gone, end));
    }

    /// Gives up what is gone, once the log was read so far that it would have said otherwise.
    pub(super) fn give_up_gone(&mut self) {
        let reached = |end: &BinlogOffset| self.place.at().is_some_and(|at| at >= end);
        if self.current.is_some() || !self.undecided.survival.gone.as_ref().is_some_and(|(_, end)| reached(end)) {
            return;
        }
        let Some((gone, _)) = self.undecided.survival.gone.take() else { return };
        for xid in gone {
            if let Some(prepared) = self.undecided.prepared.remove(&xid) {
                self.place.decided(&prepared.name);
                self.quiet = true;
                tracing::warn!(
                    xid = %xid,
                    prepared_at = %prepared.name.start,
                    "the server lost a prepared XA transaction when it was killed (XA RECOVER does not list it, and the log \
                     does not decide it); nothing of it is replicated"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use calve_core::Position;
    use calve_spool::Spools;

    use super::*;
    use crate::binlog::event::{Header, kind};
    use crate::xa_search::Deaf;

    const SERVER: u32 = 1;

    /// A log of MariaDB, read as it is written.
    struct Log {
        reader: Transactions,
        end: u32,
        sequence: u64,
    }

    impl Log {
        fn new() -> Self {
            let from: Position = "mariadb:0-1-1".parse().unwrap();
            let reader =
                Transactions::new(Flavour::MariaDb, 0, &from, None, &[], Spools::new(std::env::temp_dir())).unwrap();
            let mut log = Self { reader, end: 4, sequence: 1 };
            log.reader.enter("b.000001");
            log
        }

        fn write(&mut self, kind: u8, body: &[u8]) {
            let size = u32::try_from(Header::LENGTH + body.len()).unwrap();
            self.end += size;
            let header = Header { timestamp: 7, kind, server_id: SERVER, size, log_pos: self.end, flags: 0 };
            self.reader.event(header, body, &mut Deaf).unwrap();
        }

        fn gtid(&mut self, flags: u8, name: &str) {
            self.sequence += 1;
            let mut body = self.sequence.to_le_bytes().to_vec();
            body.extend([0, 0, 0, 0, flags]);
            if flags & 0xC0 != 0 {
                body.extend([1, 0, 0, 0, u8::try_from(name.len()).unwrap(), 0]);
                body.extend(name.as_bytes());
            }
            body.resize(body.len().max(19), 0);
            self.write(kind::MARIA_GTID, &body);
        }

        fn prepare(&mut self, name: &str) {
            self.gtid(0x40, name);
            let length = u8::try_from(name.len()).unwrap();
            let mut body = vec![0, 1, 0, 0, 0, length, 0, 0, 0, 0, 0, 0, 0];
            body.extend(name.as_bytes());
            self.write(kind::XA_PREPARE, &body);
        }

        fn commit(&mut self, name: &str) {
            self.gtid(0x81, name);
            let mut body = vec![0; 14];
            body.extend(format!("XA COMMIT {}", xid(name)).bytes());
            self.write(kind::QUERY, &body);
        }

        /// Something of nobody's interest.
        fn other(&mut self) {
            self.gtid(1, "");
            let mut body = vec![0; 14];
            body.extend(b"FLUSH PRIVILEGES");
            self.write(kind::QUERY, &body);
        }

        /// A file is begun, as it is after a start of the server or else.
        fn file(&mut self, started: bool) {
            let mut body = vec![4, 0];
            body.resize(52, 0);
            body.extend(u32::from(started).to_le_bytes());
            body.push(19);
            self.write(kind::FORMAT_DESCRIPTION, &body);
        }

        fn listed(&mut self, names: &[&str], ahead: u32) {
            assert!(self.reader.has_doubtful());
            let end = BinlogOffset::new("b.000001", u64::from(self.end + ahead));
            self.reader.learn_prepared_now(&names.iter().map(|name| xid(name)).collect(), end);
            assert!(!self.reader.has_doubtful());
        }

        /// The position, without the place in the file.
        fn stands(&self, expected: &str) {
            let position = self.reader.place().position().to_string();
            assert_eq!(position.split('@').next(), Some(expected), "{position}");
        }
    }

    fn xid(name: &str) -> Xid {
        Xid { format: 1, global: name.as_bytes().to_vec(), branch: Vec::new() }
    }

    #[test]
    fn what_the_server_lost_is_given_up_once_the_log_has_had_its_say() {
        let mut log = Log::new();
        log.prepare("lost");
        log.prepare("kept");
        log.prepare("decided");
        log.file(false);
        assert!(!log.reader.has_doubtful(), "files are begun without a start, too");
        log.file(true);
        log.stands("mariadb:0-1-4;resume=0-1-1");
        // The server was asked when "decided" was, and the log ends behind that.
        log.listed(&["kept"], 200);
        log.commit("decided");
        log.stands("mariadb:0-1-5;resume=0-1-1");
        while log.sequence < 12 {
            log.other();
        }
        log.stands("mariadb:0-1-12;resume=0-1-2");
        log.commit("kept");
        log.stands("mariadb:0-1-13");
    }

    #[test]
    fn what_is_decided_or_prepared_anew_is_not_given_up() {
        let mut log = Log::new();
        log.prepare("again");
        log.prepare("decided");
        log.file(true);
        log.listed(&[], 300);
        log.commit("decided");
        log.prepare("again");
        log.stands("mariadb:0-1-5;resume=0-1-4");
        while log.sequence < 20 {
            log.other();
        }
        log.stands("mariadb:0-1-20;resume=0-1-4");
        // Killed once more: what was prepared since is asked for as well.
        log.file(true);
        log.listed(&[], 0);
        log.other();
        log.stands("mariadb:0-1-21");
    }

    #[test]
    fn a_name_that_is_prepared_again_was_lost_before() {
        let mut log = Log::new();
        log.prepare("again");
        log.other();
        log.prepare("again");
        log.stands("mariadb:0-1-4;resume=0-1-3");
        log.commit("again");
        log.stands("mariadb:0-1-5");
    }
}

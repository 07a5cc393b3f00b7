//! Transactions that the server sends while they are in progress: what came of them is put aside until they end.
//!
//! They come in segments (Stream Start .. Stream Stop), which take turns and lie between whole transactions. A segment's
//! messages are those of a whole transaction, each with the number of its sub-transaction after its type. Nothing of them
//! counts before the commit, descriptions of relations neither: when a transaction or a sub-transaction is aborted, the server
//! forgets that it described a relation there, and describes it again before its next row. Nor can a relation look different
//! when the commit comes, since a transaction that has rows of it holds a lock until then.

use std::collections::{HashMap, HashSet};

use calve_core::{Error, ErrorKind, Result};
use calve_spool::{Records, Spool, Spools};

use super::blank::{blanked, left_out};
use super::message::{Malformed, Message, Reader, Relation};

/// What is held of transactions in progress.
#[derive(Debug)]
pub(super) struct InProgress {
    spools: Spools,
    transactions: HashMap<u32, Transaction>,
    /// The transaction of the segment that is being sent.
    segment: Option<u32>,
}

/// One of them.
#[derive(Debug)]
struct Transaction {
    spool: Spool,
    /// Sub-transactions that were aborted. Those within them are aborted by messages of their own.
    aborted: HashSet<u32>,
    /// Relations of the transaction that are not followed, as they were described last.
    others: HashSet<u32>,
    /// Of relations that are followed: which cells of their rows the lake does not get.
    left_out: HashMap<u32, Vec<bool>>,
}

/// Why a message of a segment, or one about a transaction in progress, was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("{0}")]
    OutOfTurn(String),
    #[error(transparent)]
    Disk(#[from] Error),
}

impl InProgress {
    pub(super) fn new(spools: Spools) -> Self {
        Self { spools, transactions: HashMap::new(), segment: None }
    }

    pub(super) fn in_segment(&self) -> bool {
        self.segment.is_some()
    }

    /// A segment begins. `first` says that it is the transaction's first.
    pub(super) fn start(&mut self, xid: u32, first: bool) -> std::result::Result<(), Refusal> {
        if first == self.transactions.contains_key(&xid) {
            let what = if first { "began twice" } else { "goes on without a beginning" };
            return Err(Refusal::OutOfTurn(format!("transaction {xid} {what}")));
        }
        if first {
            let transaction = Transaction {
                spool: self.spools.spool(),
                aborted: HashSet::new(),
                others: HashSet::new(),
                left_out: HashMap::new(),
            };
            self.transactions.insert(xid, transaction);
        }
        self.segment = Some(xid);
        Ok(())
    }

    /// A message within a segment: its end, or something to put aside, without the cells of columns that the lake does not get.
    pub(super) fn message(
        &mut self,
        bytes: &[u8],
        follows: impl Fn(&Relation<'_>) -> bool,
        leaves_out: impl Fn(&Relation<'_>, &str) -> bool,
    ) -> std::result::Result<(), Refusal> {
        let (&kind, body) = bytes.split_first().ok_or(Malformed::Short { what: "message" })?;
        match kind {
            b'E' => {
                Reader::new(body, "Stream Stop").end()?;
                self.segment = None;
                return Ok(());
            }
            // Alone among what comes here it has no number.
            b'O' => return Ok(Message::parse(bytes).map(|_| ())?),
            _ => {}
        }
        let (xid, body) = body.split_first_chunk::<4>().ok_or(Malformed::Short { what: "message within a Stream" })?;
        let Some(transaction) = self.segment.and_then(|segment| self.transactions.get_mut(&segment)) else {
            return Err(Refusal::OutOfTurn("a message of a segment came outside of one".to_owned()));
        };
        let message = Message::of(kind, body)?;
        if !transaction.keeps(&message, follows)? {
            return Ok(());
        }
        let blanked = transaction.blanked(&message, body, leaves_out)?;
        transaction.spool.push(&[xid, &[kind], blanked.as_deref().unwrap_or(body)]).map_err(|error| {
            let message = format!(
                "changes of a transaction in progress cannot be put aside in {}: make room there, or set spill_dir to \
                 a directory with room for the largest transactions",
                self.spools.directory().display()
            );
            Error::with_source(ErrorKind::Retry, message, error)
        })?;
        Ok(())
    }

    /// A sub-transaction was aborted, or, where it is the transaction itself, all of it.
    pub(super) fn abort(&mut self, xid: u32, sub_xid: u32) {
        if xid == sub_xid {
            self.transactions.remove(&xid);
        } else if let Some(transaction) = self.transactions.get_mut(&xid) {
            transaction.aborted.insert(sub_xid);
        }
    }

    /// The transaction is committed: what was put aside counts now.
    pub(super) fn commit(&mut self, xid: u32) -> std::result::Result<(Records, HashSet<u32>), Refusal> {
        let transaction = self.transactions.remove(&xid).ok_or_else(|| {
            Refusal::OutOfTurn(format!("transaction {xid}, of which nothing came, is committed as one in progress"))
        })?;
        Ok((transaction.spool.read(), transaction.aborted))
    }
}

impl Transaction {
    /// The body as it is put aside, where that is another.
    fn blanked(
        &mut self,
        message: &Message<'_>,
        body: &[u8],
        leaves_out: impl Fn(&Relation<'_>, &str) -> bool,
    ) -> std::result::Result<Option<Vec<u8>>, Malformed> {
        match message {
            Message::Relation(relation) => {
                match left_out(relation, |column| leaves_out(relation, column))? {
                    Some(cells) => self.left_out.insert(relation.oid, cells),
                    None => self.left_out.remove(&relation.oid),
                };
                Ok(None)
            }
            Message::Insert { relation, .. } | Message::Update { relation, .. } | Message::Delete { relation, .. } => {
                self.left_out.get(relation).map(|cells| blanked(body, cells)).transpose()
            }
            _ => Ok(None),
        }
    }

    /// Whether a message is of any use at the commit.
    fn keeps(
        &mut self,
        message: &Message<'_>,
        follows: impl Fn(&Relation<'_>) -> bool,
    ) -> std::result::Result<bool, Malformed> {
        match message {
            // Also where it is not followed: after the commit the server does not describe it again.
            Message::Relation(relation) => {
                if follows(relation) {
                    self.others.remove(&relation.oid);
                } else {
                    self.others.insert(relation.oid);
                }
                Ok(true)
            }
            Message::Insert { relation, .. } | Message::Update { relation, .. } | Message::Delete { relation, .. } => {
                Ok(!self.others.contains(relation))
            }
            Message::Truncate(truncate) => {
                Ok(truncate.relations()?.iter().any(|relation| !self.others.contains(relation)))
            }
            Message::Aside => Ok(false),
            Message::Begin { .. }
            | Message::Commit { .. }
            | Message::StreamStart { .. }
            | Message::StreamCommit { .. }
            | Message::StreamAbort { .. } => Err(Malformed::Nested),
        }
    }
}

/// A transaction that was in progress and is committed: its messages, one by one, as those of a whole transaction would be.
#[derive(Debug)]
pub(crate) struct Replay {
    records: Records,
    aborted: HashSet<u32>,
    /// The record at hand: a sub-transaction's number and a message.
    record: Vec<u8>,
    is_read: bool,
    /// First byte after the commit record.
    pub(super) end_lsn: u64,
    /// Microseconds since 2000-01-01 UTC.
    pub(super) committed_at: i64,
}

impl Replay {
    pub(super) fn new(records: Records, aborted: HashSet<u32>, end_lsn: u64, committed_at: i64) -> Self {
        Self { records, aborted, record: Vec::new(), is_read: false, end_lsn, committed_at }
    }

    /// The next message, the same one until [`advance`](Self::advance); None after the last.
    pub(crate) fn peek(&mut self) -> Result<Option<&[u8]>> {
        while !self.is_read {
            let lost = |error| {
                let message = "changes of a transaction that was in progress cannot be read from local disk";
                Error::with_source(ErrorKind::Retry, message, error)
            };
            if !self.records.next(&mut self.record).map_err(lost)? {
                return Ok(None);
            }
            let xid = self.record.first_chunk().copied().map(u32::from_be_bytes);
            self.is_read = xid.is_none_or(|xid| !self.aborted.contains(&xid));
        }
        Ok(self.record.get(size_of::<u32>()..))
    }

    /// The message was handled.
    pub(crate) fn advance(&mut self) {
        self.is_read = false;
    }
}

//! XA transactions: their rows come with the PREPARE, and count from the COMMIT on, which may be in another file or never come.

use std::collections::{BTreeMap, BTreeSet};

use calve_core::{ChangeSink, Error, ErrorKind, Result, StopReason};
use calve_spool::Spool;

use super::survival::Survival;
use super::{Mapped, Transactions};
use crate::binlog::event::{self, Event, Header, kind};
use crate::binlog::rows::RowsEvent;
use crate::ddl::{StatementKind, Xid, statement_kind};
use crate::place::TransactionName;

/// The XA transactions that are not decided.
#[derive(Debug, Default)]
pub(super) struct Undecided {
    pub(super) prepared: BTreeMap<Xid, Prepared>,
    pub(super) survival: Survival,
    /// Were looked for in the log before reading began, and are not there.
    lost: BTreeSet<Xid>,
}

/// The first half of an XA transaction that is not decided.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(super) name: TransactionName,
    rows: Spool,
}

impl Transactions {
    /// The XA transaction that the event commits, if its rows came before reading began and have not been looked for.
    pub(crate) fn unknown_xid(&self, header: Header, body: &[u8]) -> Result<Option<Xid>> {
        if header.kind != kind::QUERY || self.current.as_ref().is_none_or(|current| current.covered) {
            return Ok(None);
        }
        let Event::Query(query) = event::parse(self.flavour, &header, body).map_err(|error| self.malformed(&error))?
        else {
            return Ok(None);
        };
        let StatementKind::XaCommit(xid) = statement_kind(&query.sql) else { return Ok(None) };
        let own = self.current.as_ref().and_then(|current| current.xa.as_ref()).is_some_and(|(own, _)| *own == xid);
        let known = own || self.undecided.prepared.contains_key(&xid) || self.undecided.lost.contains(&xid);
        Ok((!known).then_some(xid))
    }

    /// What was found of an XA transaction that was prepared before reading began.
    pub(crate) fn learn_prepared(&mut self, xid: Xid, prepared: Option<Prepared>) {
        match prepared {
            Some(prepared) => drop(self.undecided.prepared.insert(xid, prepared)),
            None => drop(self.undecided.lost.insert(xid)),
        }
    }

    /// Takes the rows of an XA transaction that is prepared and not decided.
    pub(crate) fn take_prepared(&mut self, xid: &Xid) -> Option<Prepared> {
        self.undecided.prepared.remove(xid)
    }

    /// The sink knows of the transaction only where a statement in it stopped a table: that counts at once.
    pub(super) fn prepare(&mut self, xid: &Xid, sink: &mut dyn ChangeSink) -> Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let rows = current.xa.take().map_or_else(|| self.spools.spool(), |(_, rows)| rows);
        let name = current.name.clone();
        // Two of one name are never prepared at a time: the server lost the one before.
        self.undecided.survival.forget(xid);
        if let Some(lost) = self.undecided.prepared.remove(xid)
            && lost.name != name
        {
            self.place.decided(&lost.name);
        }
        self.place.prepared(&name);
        self.commit(sink)?;
        self.undecided.prepared.insert(xid.clone(), Prepared { name, rows });
        Ok(())
    }

    /// An XA transaction that is committed in one phase: its rows count now.
    pub(super) fn decide_own(&mut self, sink: &mut dyn ChangeSink) -> Result<()> {
        let rows = self.current.as_mut().and_then(|current| current.xa.take()).map(|(_, rows)| rows);
        if let Some(rows) = rows {
            self.bring(rows, sink)?;
        }
        self.commit(sink)
    }

    /// The present transaction decides one that was prepared.
    pub(super) fn decide(&mut self, xid: &Xid, commit: bool, sink: &mut dyn ChangeSink) -> Result<()> {
        let covered = self.present().covered;
        self.undecided.survival.forget(xid);
        match self.undecided.prepared.remove(xid) {
            Some(prepared) => {
                if commit && !covered {
                    self.bring(prepared.rows, sink)?;
                }
                self.place.decided(&prepared.name);
            }
            // What it changed was read by nobody here; whoever has not seen its end in a load lacks it.
            None if commit && !covered => {
                self.stop_all_wanted(sink, |table| StopReason {
                    state: "log lost".into(),
                    detail: "an XA transaction was committed whose rows the log does not hold any more".into(),
                    remedy: format!("run `calve reload {table}`"),
                })?;
            }
            None => {}
        }
        self.commit(sink)
    }

    /// Rows that were put aside.
    fn bring(&mut self, rows: Spool, sink: &mut dyn ChangeSink) -> Result<()> {
        let lost = |error: std::io::Error| {
            Error::with_source(ErrorKind::Retry, "rows of a prepared transaction cannot be read from local disk", error)
        };
        let mut events = rows.read();
        let mut event = Vec::new();
        while events.next(&mut event).map_err(lost)? {
            let Some((&kind, body)) = event.split_first() else { continue };
            let header = Header { timestamp: 0, kind, server_id: 0, size: 0, log_pos: 0, flags: 0 };
            self.inner(header, body, sink)?;
        }
        Ok(())
    }

    /// Rows of a transaction that will be prepared are put aside; true where they were.
    pub(super) fn put_aside(&mut self, rows: &RowsEvent<'_>, kind: u8, body: &[u8]) -> Result<bool> {
        if self.current.as_ref().is_none_or(|current| current.xa.is_none()) {
            return Ok(false);
        }
        if !matches!(self.maps.get(&rows.table_id), Some((_, Mapped::Other(_)))) {
            self.keep_aside(kind, body)?;
        }
        Ok(true)
    }

    pub(super) fn keep_aside(&mut self, kind: u8, body: &[u8]) -> Result<()> {
        let Some((_, spool)) = self.current.as_mut().and_then(|current| current.xa.as_mut()) else { return Ok(()) };
        spool.push(&[&[kind], body]).map_err(|error| {
            let message = format!(
                "rows of a prepared transaction cannot be put aside in {}: make room there, or set spill_dir",
                self.spools.directory().display()
            );
            Error::with_source(ErrorKind::Retry, message, error)
        })
    }
}

pub(super) fn owned(xid: &event::Xid<'_>) -> Xid {
    Xid { format: xid.format, global: xid.global.to_vec(), branch: xid.branch.to_vec() }
}

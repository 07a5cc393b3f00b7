//! Reading: polls the source into the assembler and seals checkpoints by time, rows and bytes.

use std::collections::BTreeSet;
use std::time::Duration;

use calve_core::{ChangeSource, Position, Result, TableIndex};
use tokio::sync::mpsc;

use crate::assemble::{Assembler, Work};
use crate::commit::Notice;
use crate::control::Control;
use crate::environment::Environment;
use crate::observe::{Event, Observer};
use crate::settings::Settings;
use crate::weight::Weight;

/// Why reading ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadEnd {
    /// Asked to leave, or all that `once` asks for is read.
    Finished,
    /// A table shall be read again: the next session does it.
    Reload,
    /// The committer ended first; it knows why.
    CommitterGone,
}

/// While a load waits for it, the position moves at most this often although nothing of these tables changes.
const SETTLE_INTERVAL: Duration = Duration::from_millis(200);

/// The reading half of a session.
pub(crate) struct Reader<'a> {
    pub(crate) source: &'a mut dyn ChangeSource,
    pub(crate) assembler: Assembler,
    pub(crate) environment: &'a dyn Environment,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) settings: &'a Settings,
    pub(crate) control: &'a Control,
    pub(crate) work: mpsc::Sender<(Work, Weight)>,
    pub(crate) notices: &'a mut mpsc::UnboundedReceiver<Notice>,
    /// Tables whose load is not published yet.
    pub(crate) loading: BTreeSet<TableIndex>,
    /// Those of them that are published only when the log was read further.
    pub(crate) settles: BTreeSet<TableIndex>,
    /// With `once`: the position to reach.
    pub(crate) target: Option<Position>,
    /// When the last checkpoint was sealed.
    pub(crate) sealed: Duration,
    /// When a table is to be read again by itself.
    pub(crate) reload_due: Option<Duration>,
}

impl Reader<'_> {
    /// Reads until there is a reason to end. What is complete by then is sealed and handed on.
    pub(crate) async fn run(mut self) -> Result<ReadEnd> {
        loop {
            while let Some(work) = self.assembler.next_ready().or_else(|| self.assembler.relieve()) {
                if !self.deliver(work).await {
                    return Ok(ReadEnd::CommitterGone);
                }
            }
            if let Some(end) = self.reason_to_end() {
                if self.assembler.has_progress() {
                    let work = Work::Seal(self.assembler.seal());
                    self.deliver(work).await;
                }
                return Ok(end);
            }
            let now = self.environment.now();
            let due = self.due();
            if due.is_some_and(|due| due <= now) && self.work.capacity() > 0 {
                let work = Work::Seal(self.assembler.seal());
                if !self.deliver(work).await {
                    return Ok(ReadEnd::CommitterGone);
                }
                continue;
            }
            // While the committer is behind the checkpoint goes on filling; its next look is not put off for long.
            let wait = due.map(|due| due.saturating_sub(now).max(Duration::from_millis(5)));
            // Loads come first: when the last of them is published, that is noticed by itself.
            let reload_due = self.reload_due.filter(|_| self.loading.is_empty());
            let until_reload = reload_due.map(|due| due.saturating_sub(now));
            let before = self.assembler.position().clone();
            let room = self.assembler.has_room();
            tokio::select! {
                biased;
                notice = self.notices.recv() => self.heed(notice),
                () = self.control.changed() => {}
                () = self.work.closed() => return Ok(ReadEnd::CommitterGone),
                polled = poll(self.source, &mut self.assembler, room) => polled?,
                () = self.environment.sleep(wait.unwrap_or_default()), if wait.is_some() => {}
                () = self.environment.sleep(until_reload.unwrap_or_default()), if until_reload.is_some() => {}
            }
            if let Some(committed_at) = self.assembler.committed_at()
                && *self.assembler.position() != before
            {
                self.observer.event(&Event::Read { position: self.assembler.position().clone(), committed_at });
            }
        }
    }

    fn reason_to_end(&self) -> Option<ReadEnd> {
        if self.control.wants_shutdown() {
            return Some(ReadEnd::Finished);
        }
        if !self.loading.is_empty() {
            return None;
        }
        if self.reload_due.is_some_and(|due| due <= self.environment.now()) {
            return Some(ReadEnd::Reload);
        }
        if self.target.as_ref().is_some_and(|target| self.assembler.position().covers(target)) {
            return Some(ReadEnd::Finished);
        }
        self.control.wants_reload().then_some(ReadEnd::Reload)
    }

    /// Whether a load waits, or will wait, for the log to be read to where its rows are settled.
    fn is_settling(&self) -> bool {
        self.loading.iter().any(|table| self.settles.contains(table))
    }

    /// When the checkpoint at hand is to be sealed, if there is anything in it.
    fn due(&self) -> Option<Duration> {
        if self.assembler.has_changes() {
            Some(self.sealed + self.settings.checkpoint_interval)
        } else if self.assembler.has_progress() {
            let interval = if self.is_settling() { SETTLE_INTERVAL } else { self.settings.idle_interval };
            Some(self.sealed + interval)
        } else {
            None
        }
    }

    /// Hands work to the committer, heeding its notices meanwhile. False when the committer is gone.
    async fn deliver(&mut self, work: Work) -> bool {
        if matches!(work, Work::Seal(_)) {
            self.sealed = self.environment.now();
        }
        #[cfg(feature = "mutations")]
        if let (Work::Seal(sealed), true) = (&work, self.settings.rules.broken(crate::Mutation::AckEarly)) {
            self.source.acknowledge(&calve_core::DurablePosition::unproven(sealed.end.clone()));
        }
        let channel = self.work.clone();
        loop {
            tokio::select! {
                biased;
                notice = self.notices.recv() => self.heed(notice),
                permit = channel.reserve() => match permit {
                    Ok(permit) => {
                        let weight = self.assembler.hand_on(&work);
                        permit.send((work, weight));
                        return true;
                    }
                    Err(_) => return false,
                },
            }
        }
    }

    fn heed(&mut self, notice: Option<Notice>) {
        match notice {
            Some(Notice::Acknowledge(position)) => self.source.acknowledge(&position),
            Some(Notice::Stopped(table)) => {
                self.assembler.forget(table);
                self.loading.remove(&table);
            }
            Some(Notice::Reload(due)) => self.reload_due = Some(due),
            Some(Notice::Loaded(table)) => {
                self.loading.remove(&table);
            }
            // The committer holds the sender as long as the session lasts.
            None => {}
        }
    }
}

/// Polls the source, where there is room for what it has; else waits until there may be.
async fn poll(source: &mut dyn ChangeSource, assembler: &mut Assembler, room: bool) -> Result<()> {
    if room {
        source.poll(assembler).await?;
        // Where the log has more at once, nothing was waited for: the committer has its turn.
        tokio::task::yield_now().await;
    } else {
        assembler.encoded().await;
    }
    Ok(())
}

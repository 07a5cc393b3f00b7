//! The world of a simulated run: everything outside the engine, behind one lock, and the protocol step through which each
//! port call of a process touches it.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use calve_core::{Error, ErrorKind, LakeVersion, Result, TableCommit, TableName};

use super::check::Checker;
use super::clock::{Clock, Sleep};
use super::disk::Disk;
use super::faults::{Fault, Plan, StepKind};
use super::lake::LakeState;
use super::positions::Sled;
use super::random::Random;
use super::scenario::Pace;
use super::source_log::SourceLog;

/// How a process is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// `kill -9`.
    Crash,
    /// The power goes, for everybody.
    PowerLoss,
}

/// A process of calve, past or present.
#[derive(Debug)]
pub(crate) struct ProcessState {
    pub(crate) alive: bool,
    /// It dies as soon as the executor has it back; nothing it does counts any more.
    pub(crate) dying: Option<Death>,
    /// Which local state it uses.
    pub(crate) sled: usize,
    /// Its own choices: ids, latencies.
    pub(crate) random: Random,
}

/// A commit whose sender no longer waits.
#[derive(Debug)]
pub(crate) struct Delayed {
    pub(crate) sender: usize,
    pub(crate) lands_at_step: u64,
    pub(crate) table: TableName,
    pub(crate) version: LakeVersion,
    pub(crate) commit: TableCommit,
}

/// A step that was taken, for plans to strike.
#[derive(Clone, Debug)]
pub struct Step {
    /// What kind it is.
    pub kind: StepKind,
    /// What it did.
    pub what: String,
}

/// Everything outside the engine.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) log: SourceLog,
    pub(crate) disk: Disk,
    pub(crate) lake: LakeState,
    pub(crate) sleds: Vec<Sled>,
    pub(crate) processes: Vec<ProcessState>,
    pub(crate) wire: Vec<Delayed>,
    pub(crate) checker: Checker,
    pub(crate) pace: Pace,
    /// Decides random faults and what else the world does; never what a process draws.
    pub(crate) random: Random,
    plan: Plan,
    /// Of 1,000 steps, how many a random fault strikes.
    pub(crate) fault_rate: u64,
    /// Happenings that a plan put beside a step, to be done by the executor.
    pub(crate) beside: Vec<Fault>,
    pub(crate) steps: Vec<Step>,
    pub(crate) keep_steps: bool,
    taken: u64,
    trace: Option<Vec<String>>,
    /// The first broken invariant.
    pub(crate) violation: Option<String>,
    /// Somebody other than the present process may have touched the tables.
    pub(crate) foreign_possible: bool,
    /// What happens to local state at the next start.
    pub(crate) sled_faults: Vec<Fault>,
    /// The slot was dropped by hand.
    pub(crate) slot_dropped: bool,
}

impl World {
    pub(crate) fn new(log: SourceLog, lake: LakeState, pace: Pace, plan: Plan, random: Random, traced: bool) -> Self {
        Self {
            clock: Clock::default(),
            log,
            disk: Disk::default(),
            lake,
            sleds: Vec::new(),
            processes: Vec::new(),
            wire: Vec::new(),
            checker: Checker::default(),
            pace,
            random,
            plan,
            fault_rate: 0,
            beside: Vec::new(),
            steps: Vec::new(),
            keep_steps: false,
            taken: 0,
            trace: traced.then(Vec::new),
            violation: None,
            foreign_possible: false,
            sled_faults: Vec::new(),
            slot_dropped: false,
        }
    }

    /// Steps taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Adds a line to the trace, if one is kept.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let mut text = String::new();
            let _ = write!(text, "{:>9.3}s {}", self.clock.now().as_secs_f64(), line());
            trace.push(text);
        }
    }

    /// The trace so far.
    pub(crate) fn take_trace(&mut self) -> Vec<String> {
        self.trace.take().unwrap_or_default()
    }

    /// Remembers the first violation.
    pub(crate) fn violate(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.note(|| format!("VIOLATION {what}"));
        self.violation.get_or_insert(what);
    }

    /// Applies a commit to the catalog and looks at what it did.
    pub(crate) fn commit(
        &mut self,
        table: &TableName,
        version: &LakeVersion,
        commit: &TableCommit,
    ) -> std::result::Result<calve_core::CommitReceipt, super::lake::Refused> {
        let (receipt, snapshots) = self.lake.commit(table, version, commit)?;
        for snapshot in snapshots {
            self.check_snapshot(table, snapshot);
        }
        self.check_completeness();
        Ok(receipt)
    }

    /// Lets the commits land whose time has come.
    pub(crate) fn land_delayed(&mut self, all: bool) {
        let taken = self.taken;
        let (due, later) = std::mem::take(&mut self.wire).into_iter().partition(|d| all || d.lands_at_step <= taken);
        self.wire = later;
        let due: Vec<Delayed> = due;
        for delayed in due {
            // Its sender may be gone: whoever runs now meets a hand that is not its own.
            self.foreign_possible |= delayed.sender + 1 < self.processes.len();
            let landed = self.commit(&delayed.table, &delayed.version, &delayed.commit);
            self.note(|| format!("a delayed commit on {} arrives: {:?}", delayed.table, landed.map(|r| r.version)));
        }
    }

    /// The faults that strike the step which begins now.
    fn begin_step(&mut self, process: usize, kind: StepKind, what: &dyn Fn() -> String) -> Vec<Fault> {
        self.taken += 1;
        let taken = self.taken;
        if self.keep_steps {
            self.steps.push(Step { kind, what: what() });
        }
        let mut faults = self.plan.0.remove(&taken).unwrap_or_default();
        if self.fault_rate > 0 && self.random.below(1000) < self.fault_rate {
            let possible = kind.faults();
            faults.push(possible[self.random.index(possible.len())]);
        }
        self.note(|| {
            let mut line = format!("P{process} #{taken} {}", what());
            for fault in &faults {
                let _ = write!(line, " !{fault}");
            }
            line
        });
        let (strike, beside): (Vec<_>, Vec<_>) =
            faults.into_iter().partition(|fault| kind.faults().contains(fault) || matches!(fault, Fault::Delay(_)));
        self.beside.extend(beside);
        self.land_delayed(false);
        strike
    }

    /// The power goes: unsynced writes vanish.
    pub(crate) fn lose_power(&mut self) {
        self.disk.lose_power();
        for sled in &mut self.sleds {
            sled.lose_power();
        }
        self.check_files();
    }
}

/// The world, shared by the executor and every port.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub(crate) fn new(world: World) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    /// Looks at or changes the world. Never held while the engine's code runs.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut World) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A process as its ports see it.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) world: Shared,
    pub(crate) number: usize,
}

/// The error of a request that got lost, or whose answer did.
pub(crate) fn lost(what: &str) -> Error {
    Error::new(ErrorKind::Retry, format!("{what}: simulated loss of the connection; nothing to mend"))
}

impl Process {
    /// Changes the world as this process. None once it is dying.
    pub(crate) fn act<T>(&self, f: impl FnOnce(&mut World) -> T) -> Option<T> {
        self.world.with(|w| self.lives(w).then(|| f(w)))
    }

    fn lives(&self, world: &World) -> bool {
        world.processes[self.number].dying.is_none()
    }

    fn die(&self, death: Death) {
        self.world.with(|w| {
            w.note(|| format!("P{} dies: {death:?}", self.number));
            w.processes[self.number].dying.get_or_insert(death);
        });
    }

    /// Lets simulated time pass.
    pub(crate) async fn sleep(&self, length: Duration) {
        Sleep::new(&self.world, length).await;
    }

    async fn latency(&self, kind: StepKind) {
        let length = self.world.with(|w| {
            let pace = w.pace;
            pace.latency(kind, &mut w.processes[self.number].random)
        });
        self.sleep(length).await;
    }

    /// An asynchronous protocol step: `effect` happens between two waits, and faults strike before or after it.
    pub(crate) async fn step<T>(
        &self,
        kind: StepKind,
        what: impl Fn() -> String + Send,
        effect: impl FnOnce(&mut World) -> Result<T> + Send,
    ) -> Result<T>
    where
        T: Send,
    {
        self.step_or_delay(kind, what, effect, |_, _| ()).await
    }

    /// As [`step`](Self::step), for a request that may also be on its way for longer than anybody waits.
    pub(crate) async fn step_or_delay<T>(
        &self,
        kind: StepKind,
        what: impl Fn() -> String + Send,
        effect: impl FnOnce(&mut World) -> Result<T> + Send,
        delay: impl FnOnce(&mut World, u64) + Send,
    ) -> Result<T>
    where
        T: Send,
    {
        let Some(faults) = self.act(|w| w.begin_step(self.number, kind, &what)) else {
            return std::future::pending().await;
        };
        self.latency(kind).await;
        for fault in &faults {
            match fault {
                Fault::Fail => return Err(lost(&what())),
                Fault::CrashBefore => self.die(Death::Crash),
                Fault::PowerBefore => self.die(Death::PowerLoss),
                Fault::Delay(steps) => {
                    self.act(|w| delay(w, w.taken + steps));
                    return Err(lost(&what()));
                }
                _ => {}
            }
        }
        let Some(answer) = self.act(effect) else { return std::future::pending().await };
        self.strike_after(&faults);
        self.latency(kind).await;
        if self.act(|_| ()).is_none() {
            return std::future::pending().await;
        }
        if faults.contains(&Fault::LoseAnswer) { Err(lost(&what())) } else { answer }
    }

    fn strike_after(&self, faults: &[Fault]) {
        for fault in faults {
            match fault {
                Fault::CrashAfter => self.die(Death::Crash),
                Fault::PowerAfter => self.die(Death::PowerLoss),
                _ => {}
            }
        }
    }

    /// A protocol step that nobody waits for. `effect` happens at once; `settle` (an fsync) after it, unless the power goes.
    pub(crate) fn step_now<T>(
        &self,
        kind: StepKind,
        what: impl Fn() -> String,
        effect: impl FnOnce(&mut World) -> Result<T>,
        settle: impl FnOnce(&mut World),
    ) -> Result<T> {
        let Some(faults) = self.act(|w| w.begin_step(self.number, kind, &what)) else { return Err(lost(&what())) };
        for fault in &faults {
            match fault {
                Fault::Fail => return Err(lost(&what())),
                Fault::CrashBefore => self.die(Death::Crash),
                Fault::PowerBefore => self.die(Death::PowerLoss),
                _ => {}
            }
        }
        let Some(answer) = self.act(effect) else { return Err(lost(&what())) };
        if !faults.contains(&Fault::PowerAfter) {
            self.act(settle);
        }
        self.strike_after(&faults);
        if faults.iter().any(|fault| matches!(fault, Fault::LoseAnswer | Fault::CrashAfter | Fault::PowerAfter)) {
            Err(lost(&what()))
        } else {
            answer
        }
    }
}

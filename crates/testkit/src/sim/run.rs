//! Runs one scenario under one plan: a single-threaded executor over simulated time that polls the engines, kills and
//! restarts them, and lets the world happen.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use calve_core::{ErrorKind, Result};
use calve_engine::{ControlHandle, Mutation, Policy, Ports, Rules, SchemaPolicies, Settings, control};

use super::catalog::SimLake;
use super::clock::Alarm;
use super::faults::Fault;
use super::lake::LakeState;
use super::ports::{SimEnvironment, SimObserver};
use super::positions::{SimPositions, Sled};
use super::random::Random;
use super::scenario::{Happening, Scenario, scenario};
use super::source::SimSource;
use super::source_log::{Change, SourceLog, table_name};
use super::spec::{Keep, Outcome, Spec};
use super::workload;
use super::world::{Death, Process, ProcessState, Shared, World};
use super::writer::{SimWriter, run_prefix};

/// Once nothing goes wrong any more, everything is caught up with within this time, or never.
const PATIENCE: Duration = Duration::from_mins(10);

/// No run needs as many steps.
const STEPS: u64 = 60_000;

/// How long the supervisor waits before it starts a process again.
const RESTART: Duration = Duration::from_millis(50);

/// How often somebody looks for stopped tables.
const OPERATOR: Duration = Duration::from_secs(3);

/// Within this time a process has started again.
const TIDYING: Duration = Duration::from_secs(2);

/// A key that no random transaction uses.
const TOUCHED: i64 = 1000;

/// Runs it.
///
/// # Panics
/// When there is no scenario of that name.
pub fn run(spec: &Spec, keep: Keep) -> Outcome {
    let scenario = scenario(&spec.scenario, spec.seed).unwrap_or_else(|| panic!("no scenario '{}'", spec.scenario));
    let mut runner = Runner::new(spec, scenario, keep);
    runner.drive();
    runner.processes.clear();
    let world = &runner.world;
    world.with(|w| Outcome {
        violation: w.violation.take(),
        steps: std::mem::take(&mut w.steps),
        trace: w.take_trace(),
        taken: w.taken(),
    })
}

/// A process of calve that runs.
struct Running {
    number: usize,
    future: Pin<Box<dyn Future<Output = Result<()>>>>,
    ready: Arc<Ready>,
    control: ControlHandle,
    /// It was asked to leave.
    leaving: bool,
}

/// Whether a process has something to do.
struct Ready(AtomicBool);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Runner {
    scenario: Scenario,
    without: Option<Mutation>,
    world: Shared,
    processes: Vec<Running>,
    configured: usize,
    reload_all: bool,
    workload: Random,
    /// When something last went wrong or was asked.
    disturbed: Duration,
    operated: Duration,
    steps_judged: u64,
    /// Left-over files had their chance to go.
    tidied: bool,
}

impl Runner {
    fn new(spec: &Spec, scenario: Scenario, keep: Keep) -> Self {
        let mut random = Random::new(spec.seed);
        let workload = random.fork();
        let mut log = SourceLog::new(scenario.tables);
        log.purges = scenario.purges;
        log.drifts = scenario.drifts;
        log.keep_history_of(scenario.logs, scenario.retiring);
        if scenario.chooses {
            log.choose_rows();
        }
        let lake = LakeState::new(scenario.catalog);
        let mut world = World::new(log, lake, scenario.pace, spec.plan.clone(), random, keep.trace);
        world.keep_steps = keep.steps;
        world.fault_rate = scenario.fault_rate;
        world.sleds.push(Sled::default());
        for changes in &scenario.before {
            world.log.commit(changes);
        }
        world.clock.set(Duration::ZERO, Alarm::Happening(Happening::Start));
        for (ms, happening) in &scenario.live {
            world.clock.set(Duration::from_millis(*ms), Alarm::Happening(happening.clone()));
        }
        let tidy = scenario.tidy;
        Self {
            configured: scenario.first_tables,
            scenario,
            without: spec.without,
            world: Shared::new(world),
            processes: Vec::new(),
            reload_all: false,
            workload,
            disturbed: Duration::ZERO,
            operated: Duration::ZERO,
            steps_judged: 0,
            tidied: !tidy,
        }
    }

    /// Until everything is caught up with, or an invariant is broken.
    fn drive(&mut self) {
        loop {
            while self.poll_ready() {}
            if self.world.with(|w| w.violation.is_some()) || self.is_done() {
                return;
            }
            match self.world.with(|w| w.clock.advance()) {
                Some(Alarm::Wake(waker)) => waker.wake(),
                Some(Alarm::Happening(happening)) => self.happen(happening),
                None => return self.violate("I4: nobody has anything left to do, and not everything is done"),
            }
        }
    }

    fn violate(&self, what: &str) {
        self.world.with(|w| w.violate(what));
    }

    /// Polls every process that has something to do; whether there was one.
    fn poll_ready(&mut self) -> bool {
        let mut any = false;
        for number in self.processes.iter().map(|process| process.number).collect::<Vec<_>>() {
            let Some(at) = self.processes.iter().position(|process| process.number == number) else { continue };
            let process = &mut self.processes[at];
            if !process.ready.0.swap(false, Ordering::Relaxed) {
                continue;
            }
            any = true;
            let waker = Waker::from(Arc::clone(&process.ready));
            let future = &mut process.future;
            let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
            match polled {
                Ok(Poll::Pending) => {}
                Ok(Poll::Ready(result)) => self.ended(at, result),
                Err(panic) => self.violate(&format!("P{number} panicked: {}", panic_text(&*panic))),
            }
            self.bury(number);
            for fault in self.world.with(|w| std::mem::take(&mut w.beside)) {
                self.happen(Happening::Fault(fault));
            }
            if self.world.with(|w| w.violation.is_some()) {
                return false;
            }
        }
        any
    }

    /// Removes processes that died while they were polled.
    fn bury(&mut self, number: usize) {
        let Some(death) = self.world.with(|w| w.processes[number].dying) else { return };
        self.disturb();
        match death {
            Death::Crash => self.remove(number),
            Death::PowerLoss => {
                for number in self.processes.iter().map(|process| process.number).collect::<Vec<_>>() {
                    self.remove(number);
                }
                self.world.with(World::lose_power);
            }
        }
        self.set_restart();
    }

    fn remove(&mut self, number: usize) {
        self.processes.retain(|process| process.number != number);
        let slot_busy = Duration::from_millis(self.scenario.slot_busy_ms);
        self.world.with(|w| {
            w.processes[number].alive = false;
            let busy_until = w.clock.now() + slot_busy;
            if let Some(slot) = w.log.slot.as_mut().filter(|slot| slot.owner == Some(number)) {
                (slot.owner, slot.busy_until) = (None, busy_until);
            }
        });
    }

    fn set_restart(&self) {
        self.world.with(|w| w.clock.set(w.clock.now() + RESTART, Alarm::Happening(Happening::Start)));
    }

    /// A process left by itself: the supervisor does what the error's kind says.
    fn ended(&mut self, at: usize, result: Result<()>) {
        let (number, leaving) = (self.processes[at].number, self.processes[at].leaving);
        self.remove(number);
        let lives = self.world.with(|w| w.processes[number].dying.is_none());
        if !lives {
            return; // what it says no longer counts
        }
        self.world.with(|w| w.note(|| format!("P{number} ended: {result:?}")));
        match result {
            Ok(()) if leaving => {}
            Ok(()) => self.violate(&format!("P{number} left without being asked")),
            Err(error) => match error.kind() {
                ErrorKind::Conflict if self.world.with(|w| w.foreign_possible) => {}
                ErrorKind::SourceGone if self.world.with(|w| w.slot_dropped) => self.reload_all = true,
                kind => self.violate(&format!("P{number} ended with {kind:?}: {error}")),
            },
        }
        self.set_restart();
    }

    fn disturb(&mut self) {
        self.disturbed = self.world.with(|w| w.clock.now());
    }

    fn happen(&mut self, happening: Happening) {
        self.world.with(|w| w.note(|| format!("world: {happening:?}")));
        self.disturb();
        match happening {
            Happening::Transaction(changes) => self.world.with(|w| w.log.commit(&changes)),
            Happening::RandomTransaction => self.world.with(|w| {
                let changes = workload::transaction(&w.log, &mut self.workload);
                w.log.commit(&changes);
            }),
            Happening::ForeignTraffic => self.world.with(|w| w.log.foreign_traffic()),
            Happening::Start => {
                if self.processes.is_empty() {
                    let sled = self.world.with(|w| w.processes.last().map_or(0, |process| process.sled));
                    self.start(sled);
                }
            }
            Happening::Restart => {
                self.configured = self.scenario.tables;
                for process in &mut self.processes {
                    process.leaving = true;
                    process.control.shutdown();
                }
            }
            Happening::Reload(table) if table < self.configured => {
                if let Some(newest) = self.processes.last() {
                    newest.control.reload(table_name(table));
                }
            }
            Happening::Reload(_) => {}
            Happening::Touch => self.world.with(|w| {
                let touch = |table| {
                    let there = w.log.rows(table).contains_key(&TOUCHED);
                    (table, if there { Change::Update(TOUCHED) } else { Change::Insert(TOUCHED) })
                };
                let changes: Vec<_> = (0..w.log.table_count()).map(touch).collect();
                w.log.commit(&changes);
            }),
            Happening::DropSlot => self.world.with(|w| {
                w.log.slot = None;
                w.slot_dropped = true;
            }),
            Happening::Fault(fault) => self.strike(fault),
            Happening::Calm => self.world.with(|w| w.fault_rate = 0),
        }
    }

    /// The operator asks for what is stopped to be read again; not all the time.
    fn operate(&mut self) {
        let now = self.world.with(|w| w.clock.now());
        if !self.scenario.operator || now < self.operated + OPERATOR {
            return;
        }
        self.operated = now;
        let stopped: Vec<_> = self.world.with(|w| {
            let stopped = w.lake.tables.iter().filter(|(_, table)| table.stopped.is_some());
            stopped.map(|(name, _)| name.clone()).collect()
        });
        if let Some(newest) = self.processes.last() {
            for table in &stopped {
                newest.control.reload(table.clone());
            }
        }
    }

    fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Join => {
                self.world.with(|w| w.foreign_possible = true);
                let sled = self.world.with(|w| {
                    w.sleds.push(Sled::default());
                    w.sleds.len() - 1
                });
                self.start(sled);
            }
            Fault::Compact(table) => self.world.with(|w| {
                let World { lake, disk, .. } = w;
                lake.compact(&table_name(table), disk);
            }),
            Fault::RollBack(table) => self.world.with(|w| {
                if w.lake.roll_back(&table_name(table)) {
                    w.foreign_possible = true;
                    // It is noticed with the next commit on that table.
                    w.clock.set(w.clock.now() + RESTART, Alarm::Happening(Happening::Touch));
                }
            }),
            Fault::SledLost | Fault::SledStale(_) => self.world.with(|w| w.sled_faults.push(fault)),
            _ => {} // strikes steps of another kind only
        }
    }

    fn start(&mut self, sled: usize) {
        let (rules, reload) = (self.without.map_or_else(Rules::default, Rules::without), self.reload_all);
        let tables: Vec<_> = (0..self.configured).map(table_name).collect();
        let number = self.world.with(|w| {
            let alone = w.processes.iter().all(|process| !process.alive);
            for fault in if alone { std::mem::take(&mut w.sled_faults) } else { Vec::new() } {
                w.sleds[sled] = match fault {
                    Fault::SledStale(writes) => {
                        let writes_ago = usize::try_from(writes).unwrap_or(usize::MAX);
                        w.sleds[sled].as_of(writes_ago)
                    }
                    _ => Sled::default(),
                };
            }
            let random = w.random.fork();
            w.processes.push(ProcessState { alive: true, dying: None, sled, random });
            w.processes.len() - 1
        });
        self.reload_all = false;
        let rename_column = if self.scenario.renames_reload { Policy::Reload } else { Policy::Apply };
        let settings = Settings {
            reload: tables.iter().filter(|_| reload).cloned().collect(),
            tables,
            checkpoint_interval: Duration::from_millis(self.scenario.checkpoint_ms),
            checkpoint_rows: self.scenario.checkpoint_rows,
            idle_interval: Duration::from_millis(100),
            reload_pause: Duration::from_millis(100),
            schema_changes: SchemaPolicies { rename_column, ..SchemaPolicies::default() },
            rules,
            ..Settings::default()
        };
        let process = Process { world: self.world.clone(), number };
        let ports = Ports {
            source: Box::new(SimSource::new(process.clone())),
            lake: Arc::new(SimLake(process.clone())),
            writer: Arc::new(SimWriter(process.clone())),
            positions: Arc::new(SimPositions(process.clone())),
            environment: Arc::new(SimEnvironment(process.clone())),
            observer: Arc::new(SimObserver(process)),
        };
        let (handle, control) = control();
        self.world.with(|w| w.note(|| format!("P{number} starts")));
        self.processes.push(Running {
            number,
            future: Box::pin(calve_engine::run(ports, settings, control)),
            ready: Arc::new(Ready(AtomicBool::new(true))),
            control: handle,
            leaving: false,
        });
    }

    /// I4: whether all is caught up with. Gives up when that takes for ever.
    fn is_done(&mut self) -> bool {
        let (now, taken, disturbances) = self.world.with(|w| {
            let to_come = w.clock.expects_happenings() || w.fault_rate > 0 || !w.beside.is_empty();
            (w.clock.now(), w.taken(), to_come)
        });
        if taken > STEPS {
            self.violate(&format!("I4: {STEPS} steps, and no end"));
            return true;
        }
        let late = now > self.disturbed + PATIENCE;
        if disturbances || self.processes.is_empty() {
            return false;
        }
        self.operate();
        if taken == self.steps_judged && !late {
            return false;
        }
        self.steps_judged = taken;
        let behind = self.world.with(|w| w.behind(self.configured, true));
        match behind {
            None if self.world.with(|w| w.wire.is_empty()) => self.is_tidy(),
            None => {
                // Requests that are still on their way may yet land, and must not matter.
                self.world.with(|w| w.land_delayed(true));
                false
            }
            Some(behind) if late => {
                self.violate(&format!("I4: nothing went wrong for {PATIENCE:?}, and still {behind}"));
                true
            }
            Some(_) => false,
        }
    }
}

impl Runner {
    /// Files of earlier processes that nothing references go with the next commits on their tables; none may stay.
    fn is_tidy(&mut self) -> bool {
        if !self.tidied {
            self.tidied = true;
            self.happen(Happening::Restart);
            self.world.with(|w| w.clock.set(w.clock.now() + TIDYING, Alarm::Happening(Happening::Touch)));
            return false;
        }
        // Those of the processes at hand go with the next start.
        let own: Vec<String> =
            self.processes.iter().map(|process| format!("/{}", run_prefix(process.number))).collect();
        let left_over = self.world.with(|w| {
            let is_left = |path: &&str| !w.lake.references(path) && !own.iter().any(|own| path.contains(own));
            w.disk.list("").find(is_left).map(str::to_owned)
        });
        if self.scenario.tidy
            && let Some(file) = left_over
        {
            self.violate(&format!("file {file} is left over and nothing will ever remove it"));
        }
        true
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?")
}

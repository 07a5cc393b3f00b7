//! Scenarios: what the database does and what is asked of calve, before any fault.

use std::time::Duration;

use super::faults::{Fault, StepKind};
use super::lake::Catalog;
use super::random::Random;
use super::source_log::Change;

/// Something that happens in the world at some time.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// The application commits.
    Transaction(Vec<(usize, Change)>),
    /// The application commits something random.
    RandomTransaction,
    /// Others write to the log.
    ForeignTraffic,
    /// A process of calve starts, if none runs.
    Start,
    /// The running process is asked to leave, and started again with all tables.
    Restart,
    /// The operator asks for a table to be read again.
    Reload(usize),
    /// The operator looks for tables that stopped, and asks for them to be read again.
    Operator,
    /// The slot is dropped or invalidated; the operator re-loads everything.
    DropSlot,
    /// A fault that concerns no step.
    Fault(Fault),
    /// From here on nothing fails at random.
    Calm,
}

/// How fast things go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Latencies and pieces vary; else every run with the same faults is step by step the same.
    pub(crate) varies: bool,
    /// Messages that one poll brings at most.
    pub(crate) pieces: u64,
    /// Rows that a load brings at once.
    pub(crate) load_rows: usize,
}

impl Pace {
    /// One half of a step's duration.
    pub(crate) fn latency(self, kind: StepKind, random: &mut Random) -> Duration {
        let base = match kind {
            StepKind::Read | StepKind::Receive | StepKind::Acknowledge => 1,
            StepKind::Write => 2,
            StepKind::Commit => 5,
        };
        if !self.varies {
            return Duration::from_millis(base);
        }
        let stalled = if random.below(60) == 0 { 1500 } else { 0 };
        Duration::from_millis(random.below(base * 8) + stalled)
    }

    /// How many messages this poll brings.
    pub(crate) fn receive(self, random: &mut Random) -> u64 {
        if self.varies { 1 + random.below(self.pieces) } else { self.pieces }
    }
}

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// By which it is asked for.
    pub name: &'static str,
    pub(crate) tables: usize,
    /// Tables configured until the planned restart.
    pub(crate) first_tables: usize,
    pub(crate) catalog: Catalog,
    /// Committed before calve starts.
    pub(crate) before: Vec<Vec<(usize, Change)>>,
    /// What happens after so many milliseconds.
    pub(crate) live: Vec<(u64, Happening)>,
    pub(crate) checkpoint_ms: u64,
    pub(crate) checkpoint_rows: u64,
    pub(crate) pace: Pace,
    /// Faults tried at every step beside those of the step's kind.
    pub extra: Vec<Fault>,
    /// Of 1,000 steps, how many fail at random.
    pub(crate) fault_rate: u64,
}

impl Scenario {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            tables: 2,
            first_tables: 2,
            catalog: Catalog::Sql,
            before: vec![vec![(A, Insert(1)), (B, Insert(1))]],
            live: Vec::new(),
            checkpoint_ms: 30,
            checkpoint_rows: 1000,
            pace: Pace { varies: false, pieces: 3, load_rows: 2 },
            extra: Vec::new(),
            fault_rate: 0,
        }
    }

    fn rest(mut self) -> Self {
        self.catalog = Catalog::Rest;
        self
    }

    fn at(mut self, ms: u64, changes: &[(usize, Change)]) -> Self {
        self.live.push((ms, Happening::Transaction(changes.to_vec())));
        self
    }

    fn happens(mut self, ms: u64, happening: Happening) -> Self {
        self.live.push((ms, happening));
        self
    }

    fn with_extra(mut self, faults: &[Fault]) -> Self {
        self.extra.extend(faults);
        self
    }

    /// Transactions that fill two checkpoints or three.
    fn with_core_log(self) -> Self {
        self.at(15, &[(A, Update(1))])
            .at(70, &[(B, Delete(1)), (A, Insert(2))])
            .at(75, &[(A, Update(1)), (B, Insert(1))])
            .at(130, &[(A, Delete(2))])
    }
}

const A: usize = 0;
const B: usize = 1;
use Change::{Delete, Insert, Rekey, Truncate, Unrepresentable, Update};

/// The scenarios whose every step is struck by every fault.
#[expect(clippy::too_many_lines, reason = "a list of scenarios, one after the other")]
pub fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("core").with_core_log(),
        Scenario::new("core-rest").rest().with_core_log(),
        Scenario::new("uneven")
            .at(20, &[(A, Insert(2))])
            .at(60, &[(A, Delete(2)), (B, Insert(2))])
            .at(100, &[(A, Insert(2))])
            .at(140, &[(A, Update(2))]),
        Scenario::new("keys")
            .at(30, &[(A, Insert(2)), (A, Rekey(1, 3)), (A, Rekey(2, 1)), (A, Rekey(3, 2))])
            .at(35, &[(A, Delete(1)), (A, Insert(1)), (B, Rekey(1, 5))])
            .at(90, &[(B, Insert(1)), (A, Truncate), (A, Insert(1)), (A, Rekey(1, 2))])
            .at(140, &[(A, Rekey(2, 9)), (B, Truncate)]),
        Scenario { checkpoint_rows: 2, ..Scenario::new("large") }
            .at(
                30,
                &[
                    (A, Insert(2)),
                    (A, Update(1)),
                    (A, Update(2)),
                    (B, Delete(1)),
                    (A, Delete(1)),
                    (A, Insert(1)),
                    (B, Insert(1)),
                ],
            )
            .at(60, &[(A, Update(1)), (A, Update(2)), (A, Truncate), (A, Insert(3)), (A, Update(3))]),
        Scenario::new("idle")
            .happens(40, Happening::ForeignTraffic)
            .happens(200, Happening::ForeignTraffic)
            .at(260, &[(A, Update(1))])
            .happens(300, Happening::ForeignTraffic),
        Scenario { first_tables: 1, ..Scenario::new("added") }
            .at(20, &[(A, Update(1))])
            .at(50, &[(B, Insert(2)), (A, Insert(2))])
            .happens(90, Happening::Restart)
            .at(92, &[(A, Update(1)), (B, Update(1))])
            .at(110, &[(A, Update(2)), (B, Update(2))])
            .at(130, &[(A, Delete(1)), (B, Delete(1))])
            .at(140, &[(B, Insert(1))])
            .at(200, &[(A, Insert(1))]),
        Scenario { pace: Pace { varies: false, pieces: 3, load_rows: 1 }, ..Scenario::new("reload") }
            .at(20, &[(A, Insert(2)), (B, Insert(2)), (B, Insert(3)), (B, Insert(4)), (B, Insert(5)), (B, Insert(6))])
            .happens(80, Happening::Reload(B))
            .at(85, &[(A, Update(1)), (B, Update(1))])
            .at(105, &[(A, Update(2)), (B, Delete(2))])
            .at(125, &[(A, Delete(1)), (B, Insert(2))])
            .at(145, &[(A, Insert(1)), (B, Rekey(1, 7))])
            .at(240, &[(B, Update(7))]),
        Scenario::new("stop")
            .at(20, &[(A, Update(1)), (B, Insert(2))])
            .at(60, &[(B, Unrepresentable(1)), (A, Insert(2))])
            .at(100, &[(B, Update(2)), (A, Update(2))])
            .happens(200, Happening::Operator)
            .at(230, &[(B, Update(1)), (A, Update(1))]),
        Scenario::new("compact").with_core_log().with_extra(&[Fault::Compact(A), Fault::Compact(B)]),
        Scenario::new("roll-back").with_core_log().with_extra(&[Fault::RollBack(A)]).happens(400, Happening::Operator),
        Scenario::new("zombie").with_core_log().with_extra(&[Fault::Join]),
        Scenario::new("purge")
            .with_core_log()
            .happens(60, Happening::DropSlot)
            .at(160, &[(A, Insert(5)), (B, Insert(5))]),
    ]
}

/// Everything at once, from a seed: half a minute of random transactions, faults and requests, then calm.
fn random(seed: u64) -> Scenario {
    let mut random = Random::new(seed ^ 0x5CEA_A210);
    let tables = 2 + random.index(3);
    let mut scenario = Scenario {
        tables,
        first_tables: 1 + random.index(tables),
        catalog: if random.chance(70) { Catalog::Sql } else { Catalog::Rest },
        before: Vec::new(),
        checkpoint_ms: 50 + random.below(400),
        checkpoint_rows: if random.chance(30) { 2 + random.below(6) } else { 1000 },
        pace: Pace { varies: true, pieces: 1 + random.below(6), load_rows: 1 + random.index(4) },
        fault_rate: [0, 4, 15, 40][random.index(4)],
        ..Scenario::new("random")
    };
    let span = 2_000 + random.below(6_000);
    let mut now = 0;
    while now < span {
        let longest = if random.chance(10) { 1_500 } else { 120 };
        now += random.below(longest);
        let happening = match random.below(100) {
            0..80 => Happening::RandomTransaction,
            80..90 => Happening::ForeignTraffic,
            90..92 => Happening::Reload(random.index(tables)),
            92..95 => Happening::Fault(Fault::Compact(random.index(tables))),
            95 => Happening::Fault(Fault::RollBack(random.index(tables))),
            96 => Happening::Fault(Fault::Join),
            97 => Happening::Fault(Fault::SledLost),
            98 => Happening::Fault(Fault::SledStale(1 + random.below(6))),
            _ => Happening::Restart,
        };
        scenario.live.push((now, happening));
    }
    scenario.live.push((span, Happening::Calm));
    scenario.live.push((span + 1, Happening::Restart));
    scenario.live.push((span + 20_000, Happening::Operator));
    scenario
}

/// The scenario of this name; `random` takes its shape from the seed.
pub fn scenario(name: &str, seed: u64) -> Option<Scenario> {
    if name == "random" { Some(random(seed)) } else { scenarios().into_iter().find(|scenario| scenario.name == name) }
}

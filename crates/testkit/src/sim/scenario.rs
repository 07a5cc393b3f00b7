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
    /// The application changes something in every table.
    Touch,
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
#[expect(clippy::struct_excessive_bools, reason = "each switches one property of the world")]
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
    /// For how long the server takes the slot of a dead process for active.
    pub(crate) slot_busy_ms: u64,
    /// Faults tried at every step beside those of the step's kind.
    pub extra: Vec<Fault>,
    /// Somebody looks for tables that stopped, now and then, and asks for them to be read again.
    pub(crate) operator: bool,
    /// The source's log is gone below what was acknowledged, and it does not say so before it is asked for it.
    pub(crate) purges: bool,
    /// Loads read each row at a position of its own.
    pub(crate) drifts: bool,
    /// So many of the tables, from the first on, are logs of their changes in the lake.
    pub(crate) logs: usize,
    /// So many after these keep deleted rows there.
    pub(crate) retiring: usize,
    /// Of the other tables the lake gets some of the rows only.
    pub(crate) chooses: bool,
    /// Tables whose columns are renamed are read again, instead of following.
    pub(crate) renames_reload: bool,
    /// At the end no file may be left over that nothing references.
    pub(crate) tidy: bool,
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
            slot_busy_ms: 0,
            extra: Vec::new(),
            operator: false,
            purges: false,
            drifts: false,
            logs: 0,
            retiring: 0,
            chooses: false,
            renames_reload: false,
            tidy: false,
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
use Change::{Alter, Delete, Insert, Keep, Move, Rekey, Truncate, Unrepresentable, Update};

/// The scenarios whose every step is struck by every fault.
pub fn scenarios() -> Vec<Scenario> {
    let mut all = rows();
    all.extend(schemas());
    all.extend(left_out());
    all.extend(logs());
    all.extend(deleted());
    all.extend([came_and_went(), netted()]);
    all.extend(chosen());
    all
}

/// Tables with updates that leave the value out.
fn left_out() -> Vec<Scenario> {
    let one_row_at_a_time = Pace { varies: false, pieces: 3, load_rows: 1 };
    vec![
        // One after the other while the one before is committed, by keys that change, and with a schema that does.
        Scenario::new("kept")
            .at(15, &[(A, Keep(1)), (B, Update(1)), (A, Insert(2))])
            .at(46, &[(A, Keep(1)), (A, Move(2, 3)), (B, Keep(1))])
            .at(60, &[(A, Update(1)), (A, Keep(1)), (A, Move(1, 4)), (A, Keep(4)), (A, Insert(1)), (A, Keep(1))])
            .at(78, &[(A, Move(3, -1)), (A, Move(4, 3)), (A, Move(-1, 4)), (B, Move(1, 2)), (B, Keep(2))])
            .at(108, &[(A, Alter), (A, Keep(3)), (A, Delete(1)), (B, Update(2))])
            .at(140, &[(A, Keep(4)), (A, Truncate), (A, Insert(3)), (A, Keep(3)), (B, Keep(2))]),
        // In pieces, each of which finds what the ones before it left.
        Scenario { checkpoint_rows: 2, ..Scenario::new("kept-large") }
            .at(30, &[(A, Update(1)), (A, Insert(2)), (A, Keep(1)), (A, Move(2, 3)), (B, Keep(1)), (A, Keep(3))])
            .at(
                34,
                &[
                    (A, Keep(1)),
                    (B, Insert(2)),
                    (A, Truncate),
                    (A, Insert(5)),
                    (B, Keep(2)),
                    (A, Keep(5)),
                    (A, Move(5, 6)),
                    (A, Alter),
                    (A, Keep(6)),
                ],
            )
            .at(80, &[(A, Keep(6)), (B, Keep(1)), (B, Move(2, 3))]),
        // While its table is loaded, whose rows are nowhere in the lake yet.
        Scenario { first_tables: 1, pace: one_row_at_a_time, tidy: true, ..Scenario::new("kept-added") }
            .at(20, &std::array::from_fn::<_, 8, _>(|key| (B, Insert(2 + i64::try_from(key).unwrap_or_default()))))
            .happens(60, Happening::Restart)
            .at(165, &[(B, Keep(1)), (A, Keep(1))])
            .at(180, &[(B, Move(2, 20)), (B, Keep(20)), (B, Insert(10))])
            .at(195, &[(B, Update(3)), (A, Keep(1)), (B, Keep(3)), (B, Keep(10))])
            .at(215, &[(B, Keep(20)), (B, Move(1, 2)), (B, Delete(4))])
            .at(230, &[(B, Keep(3)), (B, Truncate), (B, Insert(3)), (A, Keep(1))])
            .at(245, &[(B, Keep(3))])
            .at(400, &[(B, Keep(3)), (A, Keep(1))]),
        Scenario { pace: one_row_at_a_time, checkpoint_rows: 2, tidy: true, ..Scenario::new("kept-reload") }
            .at(20, &[(A, Insert(2)), (B, Insert(2)), (B, Insert(3)), (B, Insert(4)), (B, Insert(5)), (B, Insert(6))])
            .happens(150, Happening::Reload(B))
            .at(190, &[(A, Keep(1)), (B, Keep(1))])
            .at(
                200,
                &[
                    (B, Move(2, 8)),
                    (A, Keep(2)),
                    (B, Keep(8)),
                    (B, Update(3)),
                    (B, Keep(3)),
                    (B, Keep(4)),
                    (A, Keep(1)),
                ],
            )
            .at(215, &[(B, Keep(8)), (B, Insert(9)), (B, Keep(9)), (B, Move(9, 2)), (A, Keep(1)), (B, Keep(5))])
            .at(400, &[(B, Keep(2)), (A, Keep(1))]),
    ]
}

/// A table is loaded while rows of another come and go within checkpoints: the lake tells nothing of those.
fn came_and_went() -> Scenario {
    let one_row_at_a_time = Pace { varies: false, pieces: 3, load_rows: 1 };
    let rows = std::array::from_fn::<_, 8, _>(|key| (B, Insert(3 + i64::try_from(key).unwrap_or_default())));
    let mut scenario =
        Scenario { first_tables: 1, pace: one_row_at_a_time, ..Scenario::new("came-and-went") }.at(20, &rows);
    scenario = scenario.happens(90, Happening::Restart);
    for (ms, key) in (100..300).step_by(8).zip(50..) {
        scenario = scenario.at(ms, &[(A, Insert(key))]).at(ms + 6, &[(A, Delete(key))]);
    }
    scenario.at(500, &[(A, Update(1)), (B, Update(1))])
}

/// A row comes in one checkpoint and goes in the next; who begins between reads both as one that leaves nothing.
fn netted() -> Scenario {
    let mut scenario = Scenario::new("netted").with_extra(&[Fault::Join, Fault::Delay(40), Fault::Delay(60)]);
    for (ms, key) in [15, 75, 135].into_iter().zip(50..) {
        scenario = scenario.at(ms, &[(A, Insert(key))]).at(ms + 40, &[(A, Delete(key)), (B, Update(1))]);
    }
    scenario.at(500, &[(A, Update(1)), (B, Update(1))])
}

/// Tables that keep deleted rows.
fn deleted() -> Vec<Scenario> {
    let one_row_at_a_time = Pace { varies: false, pieces: 3, load_rows: 1 };
    vec![
        Scenario { retiring: 1, ..Scenario::new("deleted") }
            .at(15, &[(A, Update(1)), (A, Insert(2)), (A, Update(2)), (A, Delete(2)), (B, Update(1))])
            .at(40, &[(A, Rekey(1, 3)), (A, Insert(1)), (B, Delete(1))])
            .at(70, &[(A, Keep(3)), (A, Move(3, 4)), (A, Truncate), (A, Insert(3)), (A, Insert(1))])
            .at(75, &[(A, Alter), (A, Update(3)), (B, Insert(1))])
            .at(130, &[(A, Delete(3)), (A, Insert(3)), (A, Delete(1)), (A, Insert(4))])
            .happens(150, Happening::Restart)
            .at(200, &[(A, Delete(3)), (A, Truncate)])
            .at(202, &[(A, Insert(3))]),
        Scenario { retiring: 2, checkpoint_rows: 2, ..Scenario::new("deleted-large") }
            .at(
                30,
                &[
                    (A, Insert(2)),
                    (A, Delete(1)),
                    (A, Move(2, 1)),
                    (B, Delete(1)),
                    (A, Truncate),
                    (A, Insert(1)),
                    (A, Delete(1)),
                    (B, Insert(1)),
                ],
            )
            .at(60, &[(A, Insert(1)), (A, Insert(3)), (A, Alter), (A, Truncate), (A, Insert(3)), (A, Keep(3))]),
        Scenario { retiring: 2, first_tables: 1, pace: one_row_at_a_time, ..Scenario::new("deleted-added") }
            .at(20, &std::array::from_fn::<_, 6, _>(|key| (B, Insert(3 + i64::try_from(key).unwrap_or_default()))))
            .happens(90, Happening::Restart)
            .at(180, &[(A, Delete(1)), (B, Delete(1))])
            .at(200, &[(A, Insert(1)), (B, Delete(3)), (B, Insert(1)), (B, Move(4, 77))])
            .at(245, &[(A, Truncate), (B, Truncate), (B, Insert(77)), (B, Insert(4))])
            .at(400, &[(B, Delete(77))]),
        // What goes before the load is published may stay or not; what goes after it must.
        Scenario {
            retiring: 2,
            drifts: true,
            pace: one_row_at_a_time,
            checkpoint_rows: 2,
            ..Scenario::new("deleted-drift")
        }
        .at(20, &[(A, Insert(2)), (B, Insert(2)), (B, Insert(3)), (B, Insert(4))])
        .happens(80, Happening::Reload(B))
        .at(84, &[(A, Update(1)), (B, Update(1)), (B, Delete(2))])
        .at(88, &[(B, Insert(2)), (B, Rekey(3, 5)), (B, Update(2)), (B, Delete(5)), (B, Delete(1)), (B, Update(2))])
        .at(92, &[(B, Truncate), (B, Insert(7)), (A, Delete(2))])
        .at(94, &[(B, Update(7)), (B, Delete(7)), (B, Insert(7)), (B, Insert(1)), (B, Rekey(1, 3)), (A, Insert(2))])
        .at(110, &[(B, Delete(7))])
        .at(240, &[(B, Delete(3)), (A, Truncate)]),
    ]
}

/// Tables that are logs of their changes.
fn logs() -> Vec<Scenario> {
    let one_row_at_a_time = Pace { varies: false, pieces: 3, load_rows: 1 };
    vec![
        Scenario { logs: 1, ..Scenario::new("log") }
            .at(15, &[(A, Update(1)), (A, Insert(2)), (A, Update(2)), (A, Delete(2)), (B, Update(1))])
            .at(40, &[(A, Rekey(1, 3)), (A, Insert(1)), (B, Delete(1))])
            .at(70, &[(A, Update(3)), (A, Truncate), (A, Insert(3))])
            .at(75, &[(A, Alter), (A, Update(3)), (B, Insert(1))])
            .at(130, &[(A, Delete(3)), (A, Insert(3))])
            .happens(150, Happening::Restart)
            .at(200, &[(A, Update(3))]),
        Scenario { logs: 2, checkpoint_rows: 2, ..Scenario::new("log-large") }
            .at(
                30,
                &[
                    (A, Insert(2)),
                    (A, Update(1)),
                    (A, Update(1)),
                    (B, Delete(1)),
                    (A, Delete(1)),
                    (A, Insert(1)),
                    (B, Insert(1)),
                ],
            )
            .at(60, &[(A, Update(1)), (A, Update(2)), (A, Alter), (A, Truncate), (A, Insert(3)), (A, Update(3))]),
        Scenario { logs: 2, first_tables: 1, pace: one_row_at_a_time, ..Scenario::new("log-added") }
            .at(20, &std::array::from_fn::<_, 6, _>(|key| (B, Insert(3 + i64::try_from(key).unwrap_or_default()))))
            .happens(90, Happening::Restart)
            .at(180, &[(A, Update(1)), (B, Update(1))])
            .at(200, &[(A, Delete(1)), (B, Delete(1)), (B, Insert(1)), (B, Rekey(3, 77))])
            .at(245, &[(A, Insert(1)), (B, Update(77)), (B, Update(77))])
            .at(400, &[(B, Update(77))]),
        // The load is of no one position, and ends in the middle of transactions that come in pieces.
        Scenario { logs: 2, drifts: true, pace: one_row_at_a_time, checkpoint_rows: 2, ..Scenario::new("log-drift") }
            .at(20, &[(A, Insert(2)), (B, Insert(2)), (B, Insert(3)), (B, Insert(4))])
            .happens(80, Happening::Reload(B))
            .at(84, &[(A, Update(1)), (B, Update(1)), (B, Delete(2))])
            .at(88, &[(B, Insert(2)), (B, Rekey(3, 5)), (B, Update(2)), (B, Update(5)), (B, Update(1)), (B, Update(2))])
            .at(92, &[(B, Truncate), (B, Insert(7)), (A, Update(2))])
            .at(94, &[(B, Update(7)), (B, Update(7)), (B, Update(7)), (B, Insert(1)), (B, Update(1)), (A, Update(2))])
            .at(99, &[(B, Update(1)), (B, Delete(7)), (B, Insert(7)), (B, Update(7)), (B, Update(1))])
            .at(110, &[(B, Update(7))])
            .at(240, &[(B, Update(1))]),
    ]
}

/// Tables of which the lake gets some of the rows only. Values are counted over all changes, and in ranges that are had or not.
fn chosen() -> Vec<Scenario> {
    let one_row_at_a_time = Pace { varies: false, pieces: 3, load_rows: 1 };
    vec![
        // Rows leave by themselves, within a checkpoint, and with another key; and come back.
        Scenario { chooses: true, ..Scenario::new("chosen") }
            .at(15, &[(A, Update(1))])
            .at(70, &[(B, Update(1)), (A, Insert(2))])
            .at(75, &[(A, Update(2)), (A, Update(1)), (B, Update(1))])
            .at(130, &[(A, Rekey(1, 3)), (B, Update(1))])
            .at(170, &[(A, Update(3)), (A, Rekey(2, 1)), (A, Insert(2))])
            .happens(200, Happening::Restart)
            .at(260, &[(A, Update(3)), (A, Update(1)), (A, Update(2)), (B, Update(1))])
            .at(330, &[(A, Update(3)), (A, Update(1)), (A, Update(2)), (B, Update(1))])
            .at(400, &[(A, Truncate), (A, Insert(3)), (A, Insert(4)), (A, Insert(5))])
            .at(450, &[(A, Update(3)), (A, Delete(4)), (A, Update(5)), (B, Delete(1))]),
        Scenario {
            chooses: true,
            drifts: true,
            pace: one_row_at_a_time,
            checkpoint_rows: 2,
            ..Scenario::new("chosen-drift")
        }
        .at(20, &[(A, Insert(2)), (B, Insert(2)), (B, Insert(3)), (B, Insert(4))])
        .happens(80, Happening::Reload(B))
        .at(84, &[(A, Update(1)), (B, Update(1)), (B, Delete(2))])
        .at(88, &[(B, Insert(2)), (B, Rekey(3, 5)), (B, Update(2)), (B, Update(5)), (B, Update(1)), (B, Update(2))])
        .at(94, &[(B, Update(4)), (B, Update(4)), (B, Update(5)), (B, Insert(7)), (B, Update(1)), (A, Update(2))])
        .at(240, &[(B, Update(1)), (B, Update(4)), (A, Update(1))]),
    ]
}

/// Tables whose schema changes.
fn schemas() -> Vec<Scenario> {
    let one_row_at_a_time = Pace { varies: false, pieces: 3, load_rows: 1 };
    vec![
        Scenario::new("alter")
            .at(20, &[(A, Update(1)), (A, Alter), (A, Insert(2)), (B, Insert(2))])
            .at(60, &[(B, Alter)])
            .at(62, &[(B, Update(1)), (A, Update(1))])
            .at(64, &[(A, Alter)])
            .at(65, &[(A, Insert(3)), (B, Delete(2))])
            .at(130, &[(A, Delete(2)), (A, Alter), (A, Truncate), (A, Insert(1)), (A, Alter), (A, Insert(2))])
            .at(200, &[(B, Alter), (A, Alter)]),
        Scenario { drifts: true, pace: one_row_at_a_time, checkpoint_rows: 2, ..Scenario::new("alter-reload") }
            .at(20, &[(A, Insert(2)), (B, Insert(2)), (B, Insert(3)), (B, Insert(4))])
            .happens(80, Happening::Reload(B))
            .at(84, &[(A, Alter), (A, Insert(3)), (A, Update(1)), (A, Update(2)), (B, Delete(2))])
            .at(90, &[(B, Alter), (B, Insert(2))])
            .at(97, &[(B, Rekey(3, 5)), (B, Alter), (B, Alter), (B, Update(5)), (B, Update(2)), (A, Update(1))])
            .at(240, &[(B, Update(1)), (A, Alter)]),
        Scenario { renames_reload: true, ..Scenario::new("alter-reloads") }
            .at(20, &[(A, Update(1)), (A, Alter), (A, Insert(2)), (B, Insert(2))])
            .at(60, &[(A, Update(2)), (B, Update(2))])
            .at(130, &[(B, Alter), (B, Insert(3)), (A, Update(1))])
            .at(300, &[(A, Alter), (A, Delete(1))]),
    ]
}

/// Tables of one schema.
fn rows() -> Vec<Scenario> {
    let one_row_at_a_time = Pace { varies: false, pieces: 3, load_rows: 1 };
    vec![
        Scenario { tidy: true, ..Scenario::new("core") }.with_core_log(),
        Scenario { slot_busy_ms: 120, ..Scenario::new("core-rest").rest() }.with_core_log(),
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
        Scenario { first_tables: 1, pace: one_row_at_a_time, tidy: true, ..Scenario::new("added") }
            .at(20, &[(A, Update(1))])
            .at(21, &std::array::from_fn::<_, 6, _>(|key| (B, Insert(3 + i64::try_from(key).unwrap_or_default()))))
            .at(50, &[(B, Insert(2)), (A, Insert(2))])
            .happens(90, Happening::Restart)
            .at(92, &[(A, Update(1)), (B, Update(1))])
            .at(180, &[(A, Update(2)), (B, Update(2))])
            .at(200, &[(A, Delete(1)), (B, Delete(1))])
            .at(225, &[(B, Insert(1))])
            .at(245, &[(A, Insert(1)), (B, Rekey(3, 77))])
            .at(400, &[(B, Update(77))]),
        Scenario { pace: one_row_at_a_time, tidy: true, ..Scenario::new("reload") }
            .at(20, &[(A, Insert(2)), (B, Insert(2)), (B, Insert(3)), (B, Insert(4)), (B, Insert(5)), (B, Insert(6))])
            .happens(80, Happening::Reload(B))
            .at(85, &[(A, Update(1)), (B, Update(1))])
            .at(105, &[(A, Update(2)), (B, Delete(2))])
            .at(125, &[(A, Delete(1)), (B, Insert(2))])
            .at(145, &[(A, Insert(1)), (B, Rekey(1, 7))])
            .at(240, &[(B, Update(7))]),
        Scenario { drifts: true, first_tables: 1, pace: one_row_at_a_time, tidy: true, ..Scenario::new("drift") }
            .at(20, &[(A, Update(1)), (B, Insert(2)), (B, Insert(3)), (B, Insert(4))])
            .happens(90, Happening::Restart)
            .at(93, &[(A, Update(1)), (B, Rekey(1, 8)), (B, Delete(2))])
            .at(96, &[(B, Insert(1)), (B, Update(3))])
            .at(99, &[(B, Insert(2)), (B, Rekey(4, 9)), (A, Insert(2))])
            .at(102, &[(B, Delete(3))])
            .at(106, &[(B, Insert(3)), (B, Delete(8))])
            .at(112, &[(B, Insert(8)), (A, Update(2))])
            .at(160, &[(B, Update(9))])
            .at(240, &[(A, Delete(1)), (B, Rekey(9, 4))]),
        Scenario { drifts: true, pace: one_row_at_a_time, ..Scenario::new("drift-reload") }
            .at(20, &[(A, Insert(2)), (B, Insert(2)), (B, Insert(3)), (B, Insert(4))])
            .happens(80, Happening::Reload(B))
            .at(84, &[(A, Update(1)), (B, Update(1)), (B, Delete(2))])
            .at(88, &[(B, Insert(2)), (B, Rekey(3, 5))])
            .at(92, &[(B, Truncate), (B, Insert(7)), (A, Update(2))])
            .at(96, &[(B, Insert(1))])
            .at(110, &[(B, Update(7))])
            .at(240, &[(B, Update(1))]),
        Scenario { operator: true, ..Scenario::new("stop") }
            .at(20, &[(A, Update(1)), (B, Insert(2))])
            .at(60, &[(B, Unrepresentable(1)), (A, Insert(2))])
            .at(100, &[(B, Update(2)), (A, Update(2))])
            .at(230, &[(B, Update(1)), (A, Update(1))]),
        Scenario::new("compact").with_core_log().with_extra(&[Fault::Compact(A), Fault::Compact(B)]),
        Scenario { operator: true, ..Scenario::new("roll-back") }
            .with_core_log()
            .with_extra(&[Fault::RollBack(A)])
            .happens(800, Happening::Touch),
        Scenario::new("zombie").with_core_log().with_extra(&[Fault::Join]),
        Scenario { purges: true, ..Scenario::new("purged") }
            .at(15, &[(A, Update(1))])
            .at(70, &[(A, Insert(2))])
            .at(130, &[(A, Update(1))])
            .at(220, &[(A, Delete(2))])
            .at(400, &[(B, Update(1))]),
        Scenario::new("dropped")
            .with_core_log()
            .happens(60, Happening::DropSlot)
            .at(160, &[(A, Insert(5)), (B, Insert(5))]),
    ]
}

/// A load that takes so long that its table's own changes meanwhile do not fit into one commit. Only its last steps tell
/// anything new.
fn long_load() -> Scenario {
    let pace = Pace { varies: false, pieces: 3, load_rows: 1 };
    let mut scenario = Scenario { first_tables: 1, pace, checkpoint_rows: 1, ..Scenario::new("long-load") }
        .happens(60, Happening::Restart);
    scenario.before.push((2..90).map(|key| (B, Insert(key))).collect());
    for round in 0..60 {
        scenario = scenario.at(180 + 8 * round, &[(B, Update(1))]);
    }
    scenario
}

/// While a table loads, one transaction changes it in more pieces than otherwise go into one commit.
fn large_load() -> Scenario {
    let pace = Pace { varies: false, pieces: 3, load_rows: 1 };
    let mut scenario = Scenario { first_tables: 1, pace, checkpoint_rows: 1, ..Scenario::new("large-load") }
        .happens(60, Happening::Restart);
    scenario.before.push((2..90).map(|key| (B, Insert(key))).collect());
    let many: Vec<_> = (2..50).map(|key| (B, Update(key))).collect();
    scenario.at(200, &[(B, Update(1))]).at(220, &many).at(400, &[(A, Update(1)), (B, Update(3))])
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
        slot_busy_ms: random.below(200),
        operator: true,
        tidy: random.chance(20),
        drifts: random.chance(40),
        renames_reload: random.chance(20),
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
    // Drawn last, so that a seed's history is what it was before there were logs and choices.
    scenario.logs = if random.chance(40) { 1 + random.index(tables) } else { 0 };
    scenario.retiring = if random.chance(50) { 1 + random.index(tables) } else { 0 };
    scenario.chooses = random.chance(30);
    scenario.live.push((span, Happening::Calm));
    scenario.live.push((span + 1, Happening::Restart));
    scenario.live.push((span + 1_000, Happening::Touch));
    scenario
}

/// The scenario of this name: one of the list, `long-load`, `large-load`, or `random`, which takes its shape from the seed.
pub fn scenario(name: &str, seed: u64) -> Option<Scenario> {
    match name {
        "random" => Some(random(seed)),
        "long-load" => Some(long_load()),
        "large-load" => Some(large_load()),
        _ => scenarios().into_iter().find(|scenario| scenario.name == name),
    }
}

//! A simulation of everything around the engine: seeded, single-threaded, over simulated time.
//!
//! The engine is the real one. Its ports end in a database log (`source_log`), a lake of snapshots that really applies its
//! deletes (`lake`), a disk and local state that lose what was not synced (`disk`, `positions`). Each port call is a
//! numbered protocol step (`world`) that faults can strike before and after its effect (`faults`): failures, lost
//! answers, requests that land late, crashes, losses of power. Beside the steps other things happen (`scenario`): a second
//! process, foreign commits, a rollback, lost or stale local state, tables added, stopped and read again. The invariants of
//! the protocol are looked at after every step (`check`), and at the end everything must be caught up with (`run`).
//!
//! A run is named by its [`Spec`]: the same spec takes the same steps, whatever else goes on.

mod catalog;
mod change_log;
mod check;
mod chosen;
mod clock;
mod disk;
mod faults;
mod lake;
mod ports;
mod positions;
mod random;
mod retired;
mod run;
mod scenario;
mod source;
mod source_log;
mod spec;
mod workload;
mod world;
mod writer;

pub use faults::{Fault, Plan, StepKind};
pub use random::Random;
pub use run::run;
pub use scenario::{Scenario, scenario, scenarios};
pub use spec::{Keep, MUTATIONS, Outcome, Spec, expect_holds, report};
pub use world::Step;

//! The engine: batching, folding, checkpoints, the commit protocol and recovery, pure over the ports of `calve-core`.
//!
//! In the order of the flow: [`read`](self) polls the source into `assemble`, which cuts the log into checkpoints; `commit`
//! folds them (`fold`), has them written, and makes them visible; `ledger` keeps the books; `recover` decides after any start
//! where to go on; `session` puts these together, and [`run`] starts sessions until there is nothing more to do.
//!
//! The engine knows no clock, random numbers, threads or connections of its own: everything comes in through [`Ports`], so
//! that a simulation can drive it through every fault.

mod ahead;
mod assemble;
#[cfg(test)]
mod assemble_tests;
mod commit;
mod control;
mod environment;
mod fold;
#[cfg(test)]
mod fold_tests;
mod ledger;
mod load;
mod log;
mod observe;
mod policy;
mod publish;
mod read;
mod recover;
mod session;
mod settings;
mod settle;
mod stage;
mod weight;

use std::sync::Arc;
use std::time::Duration;

use calve_core::{ChangeSource, DeltaWriter, Error, ErrorKind, Lake, PositionStore, Result};

pub use control::{Control, ControlHandle, control};
pub use environment::Environment;
pub use fold::{Inserts, fold};
pub use observe::{Event, Observer, TableState};
pub use policy::{Policy, SchemaPolicies};
pub use settings::{Mutation, Rules, Settings};

use crate::commit::describe;
use crate::session::{Carried, End, session};
use crate::settle::Backoff;

/// Everything outside that the engine works with.
pub struct Ports {
    /// Where changes come from.
    pub source: Box<dyn ChangeSource>,
    /// Where tables live.
    pub lake: Arc<dyn Lake>,
    /// Writes their files.
    pub writer: Arc<dyn DeltaWriter>,
    /// Local state.
    pub positions: Arc<dyn PositionStore>,
    /// Time and ids.
    pub environment: Arc<dyn Environment>,
    /// Hears what happens.
    pub observer: Arc<dyn Observer>,
}

/// An encounter with another writer of the pipeline is forgiven after this time.
const CALM: Duration = Duration::from_mins(10);

/// Replicates until asked to leave, or until `once` is satisfied. Errors that trying again may mend never end it; any other
/// does, and its kind says what can be done.
pub async fn run(mut ports: Ports, settings: Settings, control: Control) -> Result<()> {
    let mut carried = Carried { reload: settings.reload.clone(), ..Carried::default() };
    let mut backoff = Backoff::default();
    let mut foreign: Option<Duration> = None;
    loop {
        carried.reload.extend(control.take_reloads());
        let began = ports.environment.now();
        carried.advanced = false;
        let result = session(&mut ports, &settings, &control, &mut carried).await;
        if control.wants_shutdown() {
            return match result {
                Err(error) if error.kind() != ErrorKind::Retry => Err(error),
                _ => Ok(()),
            };
        }
        // What got somewhere is not the trouble that was waited out before.
        if carried.advanced || ports.environment.now().saturating_sub(began) > CALM {
            backoff = Backoff::default();
        }
        let (what, error) = match result {
            // What stopped last of all is to be read again before leaving.
            Ok(End::Done) if carried.reloads.is_due(ports.environment.now()) => continue,
            Ok(End::Done) => return Ok(()),
            Ok(End::Again) => continue,
            Ok(End::Foreign(table)) => {
                let now = ports.environment.now();
                if foreign.is_some_and(|last| now.saturating_sub(last) < CALM) {
                    return Err(Error::new(
                        ErrorKind::Conflict,
                        format!(
                            "table {table} is written by someone else in between: another calve runs this pipeline; stop it, or \
                             give one of them another name"
                        ),
                    ));
                }
                foreign = Some(now);
                // Where that fails for now, recovery finds that their base is gone, and drops them.
                if let Err(error) = ports.positions.drop_intents()
                    && error.kind() != ErrorKind::Retry
                {
                    return Err(error);
                }
                (
                    "the pipeline, from what the tables record".to_owned(),
                    format!("table {table} was committed to by another process"),
                )
            }
            Err(error) if error.kind() == ErrorKind::Retry => ("the pipeline".to_owned(), describe(&error)),
            Err(error) => return Err(error),
        };
        let after = backoff.next();
        ports.observer.event(&Event::Retrying { what, error, after });
        let environment = Arc::clone(&ports.environment);
        tokio::select! {
            () = environment.sleep(after) => {}
            () = async { while !control.wants_shutdown() { control.changed().await } } => return Ok(()),
        }
    }
}

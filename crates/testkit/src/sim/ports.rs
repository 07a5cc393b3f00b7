//! The engine's clock, ids and observer as the world provides them.

use std::time::Duration;

use async_trait::async_trait;
use calve_engine::{Environment, Event, Observer};
use uuid::Uuid;

use super::world::Process;

/// Simulated time and seeded ids.
pub(crate) struct SimEnvironment(pub(crate) Process);

#[async_trait]
impl Environment for SimEnvironment {
    fn now(&self) -> Duration {
        self.0.world.with(|w| w.clock.now())
    }

    async fn sleep(&self, duration: Duration) {
        self.0.sleep(duration).await;
    }

    fn new_id(&self) -> Uuid {
        self.0.world.with(|w| {
            let random = &mut w.processes[self.0.number].random;
            Uuid::from_u64_pair(random.bits(), random.bits())
        })
    }
}

/// Keeps the events in the trace, and notices foreign hands where there can be none.
pub(crate) struct SimObserver(pub(crate) Process);

impl Observer for SimObserver {
    fn event(&self, event: &Event) {
        let process = &self.0;
        process.act(|w| {
            w.note(|| format!("P{} event {event:?}", process.number));
            if let Event::Foreign { table } = event
                && !w.foreign_possible
            {
                w.violate(format!("I6: P{} was always alone and took {table} for foreign", process.number));
            }
        });
    }
}

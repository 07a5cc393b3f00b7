//! Real time and real ids for the engine.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use uuid::Uuid;

/// The machine's clock, and random ids.
#[derive(Debug)]
pub(crate) struct Machine {
    start: Instant,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now() }
    }
}

#[async_trait]
impl calve_engine::Environment for Machine {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn new_id(&self) -> Uuid {
        Uuid::new_v4()
    }
}

/// Microseconds since 1970-01-01 UTC by the machine's clock.
pub(crate) fn wall_clock_micros() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

//! What the engine takes from outside instead of reaching for it: time and fresh ids. So a simulation can drive it.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

/// Clock and ids.
#[async_trait]
pub trait Environment: Send + Sync {
    /// A monotonic clock.
    fn now(&self) -> Duration;

    /// Waits. Time passes in no other way.
    async fn sleep(&self, duration: Duration);

    /// A random id that nobody has used before.
    fn new_id(&self) -> Uuid;
}

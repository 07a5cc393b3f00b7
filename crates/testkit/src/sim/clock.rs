//! Simulated time: it stands still while anybody has work, and then jumps to the next alarm.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::scenario::Happening;
use super::world::Shared;

/// When an alarm rings; the number keeps alarms of one instant in the order they were set.
pub(crate) type AlarmKey = (Duration, u64);

/// What an alarm does.
#[derive(Debug)]
pub(crate) enum Alarm {
    /// A sleeping future goes on.
    Wake(Waker),
    /// Something happens in the world.
    Happening(Happening),
}

/// The clock and everything that waits for it.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    now: Duration,
    set: u64,
    alarms: BTreeMap<AlarmKey, Alarm>,
}

impl Clock {
    /// Time since the world began.
    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    /// Sets an alarm.
    pub(crate) fn set(&mut self, at: Duration, alarm: Alarm) -> AlarmKey {
        self.set += 1;
        let key = (at, self.set);
        self.alarms.insert(key, alarm);
        key
    }

    fn cancel(&mut self, key: AlarmKey) {
        self.alarms.remove(&key);
    }

    /// Jumps to the next alarm and takes it. None when nothing will ever happen again.
    pub(crate) fn advance(&mut self) -> Option<Alarm> {
        let ((at, _), alarm) = self.alarms.pop_first()?;
        self.now = self.now.max(at);
        Some(alarm)
    }

    /// Whether something is still going to happen in the world.
    pub(crate) fn expects_happenings(&self) -> bool {
        self.alarms.values().any(|alarm| matches!(alarm, Alarm::Happening(_)))
    }
}

/// Waits until a point in simulated time.
pub(crate) struct Sleep {
    world: Shared,
    until: Duration,
    key: Option<AlarmKey>,
}

impl Sleep {
    pub(crate) fn new(world: &Shared, length: Duration) -> Self {
        let until = world.with(|w| w.clock.now()) + length;
        Self { world: world.clone(), until, key: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let (until, key) = (self.until, self.key);
        let set = self.world.with(|w| {
            if let Some(key) = key {
                w.clock.cancel(key);
            }
            (w.clock.now() < until).then(|| w.clock.set(until, Alarm::Wake(context.waker().clone())))
        });
        self.key = set;
        if set.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.world.with(|w| w.clock.cancel(key));
        }
    }
}

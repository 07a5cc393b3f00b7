//! How many a second, lately.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_mins(1);

/// Counts over the last minute.
pub(super) struct Rate {
    start: Instant,
    counts: VecDeque<(Instant, u64)>,
}

impl Rate {
    pub(super) fn new(start: Instant) -> Self {
        Self { start, counts: VecDeque::new() }
    }

    /// Adds at a time not before the last one. One entry a second is kept at most.
    pub(super) fn add(&mut self, count: u64, now: Instant) {
        while self.counts.front().is_some_and(|(at, _)| now.duration_since(*at) > WINDOW) {
            self.counts.pop_front();
        }
        match self.counts.back_mut() {
            Some((at, sum)) if now.duration_since(*at) < Duration::from_secs(1) => *sum += count,
            _ => self.counts.push_back((now, count)),
        }
    }

    pub(super) fn per_second(&self, now: Instant) -> u64 {
        let recent = self.counts.iter().filter(|(at, _)| now.duration_since(*at) <= WINDOW);
        let sum: u64 = recent.map(|(_, count)| count).sum();
        sum / now.duration_since(self.start).min(WINDOW).as_secs().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_minute_counts() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut rate = Rate::new(start);
        assert_eq!(rate.per_second(at(0)), 0);
        rate.add(100, at(5));
        assert_eq!(rate.per_second(at(10)), 10);
        rate.add(600, at(100));
        assert_eq!(rate.per_second(at(100)), 10);
        assert_eq!(rate.per_second(at(161)), 0);
    }
}

//! A clock that advances only when a test moves it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider::{Clock, Now, Timestamp};

/// Time for tests. Clones share one time.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<Now>>);

impl ManualClock {
    /// A clock with zero elapsed time and this wall-clock time.
    pub fn at(wall: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(Now { elapsed: Duration::ZERO, wall })))
    }

    /// Advances both clocks.
    pub fn advance(&self, duration: Duration) {
        self.change(|now| {
            now.elapsed += duration;
            now.wall = now.wall.after(duration);
        });
    }

    /// Sets the wall clock, forwards or back; no time passes.
    pub fn set_wall(&self, wall: Timestamp) {
        self.change(|now| now.wall = wall);
    }

    fn change<T>(&self, change: impl FnOnce(&mut Now) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::at(Timestamp::from_micros(1_700_000_000_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        self.change(|now| *now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_the_wall_clock_does_not_advance_elapsed_time() {
        let clock = ManualClock::default();
        let before = clock.now();
        clock.advance(Duration::from_secs(2));
        clock.set_wall(before.wall);
        assert_eq!(clock.now(), Now { elapsed: Duration::from_secs(2), wall: before.wall });
    }

    #[test]
    fn clones_share_one_time() {
        let clock = ManualClock::default();
        clock.clone().advance(Duration::from_secs(1));
        assert_eq!(clock.now().elapsed, Duration::from_secs(1));
    }
}

//! A clock that advances only when a test moves it.

use std::sync::Arc;
use std::time::Duration;

use postrider::{BoxFuture, Clock, Now, Timestamp};
use tokio::sync::watch;

/// Time for tests: it stands still until the test moves it. Clones share one time.
///
/// A relay with this clock waits for polls, retries and the end of backoffs until the test advances it, so minutes pass in
/// no time. [`TestRelay`](crate::TestRelay) does this for you. With a relay of your own
/// ([`RelayBuilder::clock`](postrider::relay::RelayBuilder::clock)), advance it until what you expect has happened:
/// progress is stored, and an idle outbox is polled, only when time passes.
///
/// It does not move leases in the database, the age of events for retention, timeouts of calls, or the sleeps of your
/// own code.
///
/// ```
/// use postrider::Clock;
/// use postrider_testkit::ManualClock;
/// use std::time::Duration;
///
/// let clock = ManualClock::default();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(600));
/// assert_eq!(clock.now().wall, before.wall.after(Duration::from_secs(600)));
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<watch::Sender<Now>>);

impl ManualClock {
    /// A clock with zero elapsed time and this wall-clock time.
    pub fn at(wall: Timestamp) -> Self {
        Self(Arc::new(watch::Sender::new(Now { elapsed: Duration::ZERO, wall })))
    }

    /// Advances both clocks, and wakes what waits for a time that is reached.
    pub fn advance(&self, duration: Duration) {
        self.0.send_modify(|now| {
            now.elapsed += duration;
            now.wall = now.wall.after(duration);
        });
    }

    /// Sets the wall clock, forwards or back; no time passes.
    pub fn set_wall(&self, wall: Timestamp) {
        self.0.send_modify(|now| now.wall = wall);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::at(Timestamp::from_micros(1_700_000_000_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        *self.0.borrow()
    }

    fn sleep_until(&self, elapsed: Duration) -> BoxFuture<'static, ()> {
        let mut now = self.0.subscribe();
        Box::pin(async move {
            if now.wait_for(|now| now.elapsed >= elapsed).await.is_err() {
                // Every handle of the clock is gone: its time stands still.
                std::future::pending().await
            }
        })
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

    #[tokio::test]
    async fn a_sleep_ends_when_its_time_is_reached_and_not_before() {
        let clock = ManualClock::default();
        let mut sleep = clock.sleep_until(Duration::from_secs(60));
        clock.advance(Duration::from_secs(59));
        let early = tokio::time::timeout(Duration::from_millis(20), &mut sleep).await;
        assert!(early.is_err(), "one second too early");
        clock.advance(Duration::from_secs(1));
        sleep.await;
        clock.sleep_until(Duration::from_secs(5)).await;
    }
}

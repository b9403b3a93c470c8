//! A relay that a test drives.

use std::sync::Arc;
use std::time::Duration;

use postrider::relay::{Relay, SubscriptionStatus};
use postrider::store::{ParkedState, Store as _};
use postrider::{Position, Subscription};

use super::{CrashPoints, TestOutbox};
use crate::ManualClock;

/// The time between two checks.
const CHECK_EVERY: Duration = Duration::from_millis(1);
/// After this many checks without a call in progress, the clock follows real time: the relay waits for a timer.
const CHECKS_BEFORE_TICK: u32 = 20;
/// The test fails after this many checks, about a minute.
const CHECKS_MAX: u32 = 50_000;
/// Longer than any backoff of the default policy.
const LONGEST_BACKOFF: Duration = Duration::from_secs(301);
/// More attempts than a policy has.
const RETRIES_MAX: u32 = 1_000;

/// A relay on a [`TestOutbox`], with a clock that the test moves. It runs until it is idle and is then shut down; the next
/// run is a new relay on the same file.
///
/// A handler that fails twice is retried after minutes, in milliseconds:
///
/// ```
/// # #[tokio::main]
/// # async fn main() {
/// use std::time::Duration;
/// use postrider::handler::{Context, Result};
/// use postrider::relay::Policy;
/// use postrider::{Event, Subscription};
/// use postrider_testkit::{TestOutbox, TestRelay};
///
/// #[derive(Event, serde::Serialize, serde::Deserialize)]
/// #[event(type = "order.placed")]
/// struct OrderPlaced { order: u64 }
///
/// async fn send_mail(_: OrderPlaced, cx: Context) -> Result {
///     if cx.attempt() < 3 { Err("the mail server is down".into()) } else { Ok(()) }
/// }
///
/// let minutes = Policy::default().backoff_min(Duration::from_secs(120)).backoff_max(Duration::from_secs(600));
/// let outbox = TestOutbox::new();
/// let relay = TestRelay::new(&outbox, move || [Subscription::handler("mail", send_mail).policy(minutes.clone())]);
/// outbox.write(&OrderPlaced { order: 42 });
///
/// assert_eq!(relay.run_until_idle().await.waiting, 1); // the first attempt failed
/// assert_eq!(relay.run_until_idle().await.waiting, 1); // its retry is not due yet
/// relay.clock().advance(Duration::from_secs(120));
/// assert_eq!(relay.run_until_idle().await.waiting, 1); // the second failed
/// relay.clock().advance(Duration::from_secs(240));
/// assert!(relay.run_until_idle().await.is_empty());
/// # }
/// ```
///
/// Use a runtime with real time, not `start_paused`: SQLite works on threads that a paused runtime does not wait for.
pub struct TestRelay {
    outbox: TestOutbox,
    clock: ManualClock,
    points: CrashPoints,
    subscriptions: Box<dyn Fn() -> Vec<Subscription> + Send + Sync>,
}

/// What is left when a relay is idle, over all its subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Remaining {
    /// Events that wait for a retry, or behind one.
    pub waiting: u64,
    /// Events that were given up after their last attempt, or that a handler called dead.
    pub dead: u64,
    /// Events whose time was over before they were handled.
    pub expired: u64,
    /// Events that have no destination.
    pub unrouted: u64,
    /// Events that are held because their destination is down.
    pub held: u64,
}

impl Remaining {
    /// Every event is handled: none waits, is held, dead or expired, and none has no destination.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The relay is shut down when it is idle.
    Shutdown,
    /// The relay dies when it is idle, before it has stored its progress.
    Crash,
}

#[allow(clippy::panic, reason = "a test that cannot go on fails")]
impl TestRelay {
    /// A relay with these subscriptions, which are created again for each run.
    pub fn new<S: IntoIterator<Item = Subscription>>(
        outbox: &TestOutbox,
        subscriptions: impl Fn() -> S + Send + Sync + 'static,
    ) -> Self {
        Self {
            outbox: outbox.clone(),
            clock: ManualClock::default(),
            points: CrashPoints::new(),
            subscriptions: Box::new(move || subscriptions().into_iter().collect()),
        }
    }

    /// Ends a run when one of these points crashes: the relay is dropped, as if its process had died, and its progress
    /// since the last time it was stored is lost.
    #[must_use]
    pub fn crash_points(mut self, points: &CrashPoints) -> Self {
        self.points = points.clone();
        self
    }

    /// Its clock. The first time that it shows is in November 2023; set it if your events have other times.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Runs until every event that can be handled now is handled, those included that handlers write meanwhile. Events
    /// whose retry is not due wait: [advance](ManualClock::advance) the clock and call it again.
    ///
    /// If a crash point ends the run, this returns early; see [`CrashPoints::has_crashed`].
    ///
    /// # Panics
    /// If the relay cannot start, or is not idle after a minute.
    pub async fn run_until_idle(&self) -> Remaining {
        loop {
            let last = self.last().await;
            let remaining = self.run(End::Shutdown).await;
            if self.points.has_crashed() || self.last().await == last {
                return remaining;
            }
        }
    }

    /// As [`run_until_idle`](Self::run_until_idle), and advances the clock for each retry, until no event waits for one.
    ///
    /// # Panics
    /// As [`run_until_idle`](Self::run_until_idle), and after a thousand retries.
    pub async fn run_until_done(&self) -> Remaining {
        for _ in 0..RETRIES_MAX {
            let remaining = self.run_until_idle().await;
            if remaining.waiting == 0 || self.points.has_crashed() {
                return remaining;
            }
            self.clock.advance(LONGEST_BACKOFF);
        }
        panic!("an event is still retried after {RETRIES_MAX} retries");
    }

    /// One relay, from its start to its end.
    pub(super) async fn run(&self, end: End) -> Remaining {
        self.outbox.release_leases();
        let store = Arc::new(self.outbox.open());
        let last = self.last().await;
        let clock = Arc::new(self.clock.clone());
        let builder = Relay::builder().clock(clock).outbox(store.clone(), (self.subscriptions)());
        let relay = builder.spawn().await.unwrap_or_else(|error| panic!("the relay does not start: {error}"));
        self.wait_until_idle(&relay, last).await;
        let handle = relay.handle();
        if end == End::Shutdown && !self.points.has_crashed() {
            relay.shutdown().await.unwrap_or_else(|error| panic!("the relay does not stop: {error}"));
        } else {
            drop(relay);
            handle.shutdown().await; // only waits: its tasks are cancelled
        }
        let overview = store.overview(1).await.unwrap_or_else(|error| panic!("{error}"));
        store.close().await;
        let count = |state: ParkedState| overview.subscriptions.iter().map(|of| of.parked.count(state)).sum();
        let waiting: u64 = count(ParkedState::Retry);
        let behind: u64 = count(ParkedState::Behind);
        Remaining {
            waiting: waiting + behind,
            dead: count(ParkedState::Dead),
            expired: count(ParkedState::Expired),
            unrouted: count(ParkedState::Unrouted),
            held: count(ParkedState::Held),
        }
    }

    async fn wait_until_idle(&self, relay: &Relay, last: Position) {
        let mut quiet = 0;
        for _ in 0..CHECKS_MAX {
            let status = relay.status();
            if self.points.has_crashed() || status.iter().all(|of| is_idle(of, last)) {
                return;
            }
            let calls = status.iter().any(|of| of.state.in_flight > 0);
            quiet = if calls { 0 } else { quiet + 1 };
            if quiet > CHECKS_BEFORE_TICK {
                self.clock.advance(CHECK_EVERY);
            }
            tokio::time::sleep(CHECK_EVERY).await;
        }
        panic!("the relay is not idle: {:#?}", relay.status());
    }

    async fn last(&self) -> Position {
        let last = "SELECT coalesce(max(position), 0) FROM postrider_events";
        Position::new(self.outbox.count(last))
    }
}

/// Whether everything up to a position is handled or waits for its retry.
fn is_idle(of: &SubscriptionStatus, last: Position) -> bool {
    let state = &of.state;
    let nothing_in_memory = state.in_flight == 0 && state.events_in_memory == 0 && state.fetching_parked == 0;
    let paused = state.paused.is_some() && state.in_flight == 0;
    state.leading.is_some() && (paused || (state.floor >= last && nothing_in_memory))
}

impl std::fmt::Debug for TestRelay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestRelay").field("outbox", &self.outbox).finish_non_exhaustive()
    }
}

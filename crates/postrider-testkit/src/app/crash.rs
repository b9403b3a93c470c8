//! Ends a handler at each of its points in turn.

use std::fmt;

use postrider::Subscription;

use super::relay::End;
use super::{CrashPoints, TestOutbox, TestRelay};

/// Runs handlers again and again, lets the process die at each of their points in turn, starts it again on the same
/// database, and lets the test check the effects.
///
/// ```
/// # #[tokio::main]
/// # async fn main() {
/// use postrider::handler::{Context, Handlers, Result};
/// use postrider::inbox::{Inbox, Received};
/// use postrider::{Event, Subscription};
/// use postrider_testkit::{CrashTest, TestOutbox};
///
/// #[derive(Event, serde::Serialize, serde::Deserialize)]
/// #[event(type = "order.placed")]
/// struct OrderPlaced { order: i64 }
///
/// fn queue_mail(outbox: &TestOutbox, placed: OrderPlaced, cx: &Context) -> Result {
///     let mut db = outbox.connect();
///     let tx = db.transaction()?;
///     if cx.receive(&Inbox::new(), &tx)? == Received::First {
///         tx.execute("INSERT INTO mails VALUES (?)", [placed.order])?;
///         cx.crash_point("mail queued");
///     }
///     tx.commit()?;
///     cx.crash_point("committed");
///     Ok(())
/// }
///
/// let crashes = CrashTest::new(|outbox, points| {
///     let outbox = outbox.clone();
///     let mail = Handlers::new().on(move |placed: OrderPlaced, cx| {
///         let outbox = outbox.clone();
///         async move { queue_mail(&outbox, placed, &cx) }
///     });
///     [Subscription::handlers("mail", points.watch(mail))]
/// })
/// .run(
///     |outbox| {
///         outbox.connect().execute("CREATE TABLE mails (order_id INTEGER)", []).unwrap();
///         outbox.write(&OrderPlaced { order: 42 });
///     },
///     |outbox, crash| assert_eq!(outbox.count("SELECT count(*) FROM mails"), 1, "{crash}"),
/// )
/// .await;
/// assert_eq!(crashes.len(), 5); // before and after the call, two of its own, before the progress is stored
/// # }
/// ```
///
/// # What it simulates
/// The death of the process between two steps of a handler: nothing after the point runs, open transactions are rolled
/// back, the relay and what it had not stored are gone, and a new relay starts on the same database. Unlike `kill -9`,
/// destructors run, other calls in progress go on until their next `await`, and threads and tasks that the handler started
/// itself live on. A power failure of the database server is not simulated.
pub struct CrashTest {
    subscriptions: Box<Subscriptions>,
}

type Subscriptions = dyn Fn(&TestOutbox, &CrashPoints) -> Vec<Subscription> + Send + Sync;

/// Where the process died.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Crash {
    /// Nowhere: the first run, in which the points are found.
    None,
    /// At a point, when it was reached for the given time, counted from 1.
    At(String, u32),
    /// After all calls had returned, before the relay had stored that the events are handled.
    BeforeProgress,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no crash"),
            Self::At(point, time) => write!(f, "crash at {point:?}, time {time}"),
            Self::BeforeProgress => f.write_str("crash before the progress is stored"),
        }
    }
}

#[allow(clippy::panic, reason = "a test that cannot go on fails")]
impl CrashTest {
    /// A test of these subscriptions. Their handlers are [watched](CrashPoints::watch) by the points.
    pub fn new<S: IntoIterator<Item = Subscription>>(
        subscriptions: impl Fn(&TestOutbox, &CrashPoints) -> S + Send + Sync + 'static,
    ) -> Self {
        Self {
            subscriptions: Box::new(move |outbox, points| {
                subscriptions(outbox, points).into_iter().collect()
            }),
        }
    }

    /// Runs once without a crash, to find the points, then once per point and time it was reached, and once with a crash
    /// before the progress is stored. Each has a new file, which `setup` fills, and ends when no event waits for a retry.
    /// Then `check` asserts the effects: once with an inbox, at least once without. Returns the crashes.
    ///
    /// # Panics
    /// If a run never reaches a point that the first one reached, and as [`TestRelay::run_until_done`].
    pub async fn run(self, setup: impl Fn(&TestOutbox), check: impl Fn(&TestOutbox, &Crash)) -> Vec<Crash> {
        let subscriptions = std::sync::Arc::new(self.subscriptions);
        let start = || {
            let (outbox, points) = (TestOutbox::new(), CrashPoints::new());
            setup(&outbox);
            let (of, file, at) = (subscriptions.clone(), outbox.clone(), points.clone());
            let relay = TestRelay::new(&outbox, move || of(&file, &at)).crash_points(&points);
            (outbox, points, relay)
        };
        let (outbox, points, relay) = start();
        relay.run_until_done().await;
        check(&outbox, &Crash::None);
        assert!(
            !points.all().is_empty(),
            "no crash point was reached: pass the points to the handler and mark some in it"
        );
        let all = points.all().into_iter().map(|(point, time)| Crash::At(point, time));
        let crashes: Vec<Crash> = all.chain([Crash::BeforeProgress]).collect();
        for crash in &crashes {
            let (outbox, points, relay) = start();
            if let Crash::At(point, time) = crash {
                points.crash_at(point, *time);
                relay.run_until_done().await;
                assert!(points.has_crashed(), "{crash}: this run did not reach the point");
            } else {
                relay.run(End::Crash).await;
            }
            points.restart();
            relay.run_until_done().await;
            check(&outbox, crash);
        }
        crashes
    }
}

impl fmt::Debug for CrashTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CrashTest")
    }
}

//! Faults of a database server: each test starts its own server and makes it fail.
//!
//! At the end the deliveries are compared with the table: nothing lost, nothing invented, every key in order. The cases are
//! the same for every kind of server; a kind implements [`TestServer`], and `server_fault_tests!` creates its tests.

mod cases;
pub(crate) mod failover;
pub(crate) mod history;
pub(crate) mod network;
pub(crate) mod outage;
mod recorder;
pub(crate) mod refusal;

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::{Start, Store, SubscriptionOverview};
use postrider::{Event, Ident, Position, Result};
use postrider_testkit::eventually;
use postrider_testkit::servers::{Controlled, Copy};
use postrider_testkit::verify::{Sighting, Verdict, verify};

pub(crate) use cases::server_fault_tests;
pub(crate) use recorder::Recorder;

/// Longer than anything in these tests takes.
pub(crate) const LONG: Duration = Duration::from_secs(90);

/// Between two checks of a condition.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(20);

/// The login of relays, with a password for servers that require one. It has the relay role of the library's script.
pub(crate) const RELAY: &str = "faults_relay:secret";

/// The login of writers.
pub(crate) const WRITER: &str = "faults_writer:secret";

/// How a server is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setup {
    Plain,
    /// Everyone except the administrator needs a password.
    Passwords,
    /// Few connections, at least one of them reserved for the administrator.
    FewConnections,
    /// The data is on a small disk.
    SmallDisk,
}

/// An action on the server process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// A clean shutdown.
    Stop,
    /// A kill without a shutdown.
    Kill,
    Start,
}

/// The port and the user of a store, if they are not the default.
#[derive(Debug, Clone, Default)]
pub(crate) struct Target {
    /// On loopback, if not the port of the server.
    pub(crate) port: Option<u16>,
    /// `user:password`, if not [`RELAY`].
    pub(crate) user: Option<&'static str>,
    pub(crate) schema: Option<Ident>,
    pub(crate) answer_within: Option<Duration>,
}

/// A change by an administrator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    ReadOnly,
    Writable,
    /// Deletes the events after the fifth and sets the position counter back.
    LastEventsGone,
    /// Deletes all events and sets the position counter back to the fifth.
    CounterReset,
    /// Creates a relay user `single` with a limit of one connection.
    OneConnection,
    MoreConnections,
    /// Revokes the right of relays to record progress.
    SettlingDenied,
    SettlingAllowed,
    PasswordChanged,
    PasswordAsBefore,
    /// Ends the connections of [`RELAY`].
    RelayCut,
}

/// A server with an outbox, and its writers.
pub(crate) trait TestServer: Sized {
    /// The server's messages when there is no connection left: for a user with a limit, and for everyone.
    const NO_CONNECTION: [&'static str; 2];
    /// The server's message for a wrong password.
    const WRONG_PASSWORD: &'static str;

    /// `None` without such a server. Prints the reason.
    async fn new(setup: Setup) -> Result<Option<Self>>;

    /// The server itself.
    fn process(&self) -> Arc<dyn Controlled>;

    fn port(&self) -> u16 {
        self.process().port()
    }

    fn data(&self) -> PathBuf {
        self.process().data()
    }

    /// Acts on the server process while everything else continues.
    async fn act(&self, act: Action) {
        blocking(&self.process(), move |server| match act {
            Action::Stop => server.stop(),
            Action::Kill => server.kill(),
            Action::Start => server.start(),
        })
        .await;
    }

    async fn back_up(&self) -> Copy {
        blocking(&self.process(), |server| server.back_up()).await
    }

    /// Restores the server from a copy.
    async fn restore(&self, copy: Copy) {
        blocking(&self.process(), move |server| server.restore(&copy)).await;
    }

    async fn change(&self, change: Change) -> Result<()>;

    /// A store that is not connected yet.
    fn store(&self, to: Target) -> Result<Arc<dyn Store>>;

    /// The same, connected and checked.
    async fn connect(&self, to: Target) -> Result<Arc<dyn Store>>;

    /// Commits events one by one as a writer. The administrator always has a connection.
    async fn commit(&self, events: Vec<Event>) -> Result<()>;
    async fn commit_as_administrator(&self, events: Vec<Event>) -> Result<()>;

    /// Writes until `stop` is set, through every fault of the server.
    fn write_on(&self, stop: Arc<AtomicBool>) -> impl Future<Output = ()> + Send + 'static;

    /// Every event of the outbox in order, each with its number within its key.
    async fn committed(&self) -> Result<Vec<Sighting>>;

    /// Opens connections as another user until only the one for the administrator is left.
    async fn take_all_connections(&self) -> Vec<Box<dyn Any>>;
}

/// Runs a blocking call on a server while everything else continues.
pub(crate) async fn blocking<S: Send + Sync + ?Sized + 'static, T: Send + 'static>(
    server: &Arc<S>,
    what: impl FnOnce(&S) -> Result<T, String> + Send + 'static,
) -> T {
    let server = server.clone();
    tokio::task::spawn_blocking(move || what(&server)).await.unwrap().unwrap()
}

/// Commits this many events, of five keys.
pub(crate) async fn write<W: TestServer>(server: &W, events: usize) -> Result<()> {
    server.commit(some(events)).await
}

pub(crate) fn some(events: usize) -> Vec<Event> {
    (0..events)
        .map(|number| Event::new("order.placed", "{}").with_key(format!("key {}", number % 5)))
        .collect()
}

/// A relay from a store to a sink.
pub(crate) async fn relay_at(store: Arc<dyn Store>, sink: &Recorder) -> Result<Relay> {
    Relay::builder().outbox(store, [subscription(sink)]).spawn().await
}

pub(crate) async fn relay<W: TestServer>(server: &W, sink: &Recorder) -> Result<Relay> {
    relay_at(server.store(Target::default())?, sink).await
}

/// A server whose relay has delivered this many events. `None` without such a server.
pub(crate) async fn delivering<W: TestServer>(
    setup: Setup,
    events: usize,
) -> Result<Option<(W, Recorder, Relay)>> {
    let Some(server) = W::new(setup).await? else { return Ok(None) };
    let sink = Recorder::new();
    let relay = relay(&server, &sink).await?;
    write(&server, events).await?;
    sink.wait_for(events).await;
    Ok(Some((server, sink, relay)))
}

/// Ends the relay; every committed event was delivered, in order.
pub(crate) async fn shut_down_clean<W: TestServer>(server: &W, sink: &Recorder, relay: Relay) -> Result<()> {
    relay.shutdown().await?;
    let verdict = verdict(server, sink).await?;
    assert!(verdict.is_clean(), "{verdict}");
    Ok(())
}

/// Compares the table with what was delivered.
pub(crate) async fn verdict<W: TestServer>(server: &W, sink: &Recorder) -> Result<Verdict> {
    let committed = server.committed().await?;
    let unknown = || Sighting { id: Default::default(), key: String::new(), version: 0 };
    let known = |id| committed.iter().find(|event| event.id == id).cloned().unwrap_or_else(unknown);
    let delivered: Vec<Sighting> = sink.delivered().into_iter().map(known).collect();
    Ok(verify(&committed, &delivered))
}

pub(crate) async fn overview<W: TestServer>(server: &W) -> Result<SubscriptionOverview> {
    let overview = server.connect(Target::default()).await?.overview(1_000).await?;
    Ok(overview.subscriptions.into_iter().next().unwrap())
}

/// Waits until everything up to a position is settled.
pub(crate) async fn settled<W: TestServer>(server: &W, floor: usize) {
    let floor = Position::new(floor as i64);
    eventually("all is settled", async || overview(server).await.is_ok_and(|seen| seen.floor == floor)).await;
}

/// Waits until the subscription is halted, and returns the reason.
pub(crate) async fn halted<W: TestServer>(server: &W) -> String {
    let mut reason = None;
    eventually("the subscription halts", async || {
        reason = overview(server).await.ok().and_then(|overview| overview.halted);
        reason.is_some()
    })
    .await;
    reason.unwrap()
}

pub(crate) fn policy() -> Policy {
    Policy::default().lease(Duration::from_secs(2))
}

pub(crate) fn subscription(sink: &Recorder) -> Subscription {
    Subscription::new("mail", sink.clone()).start(Start::Beginning).policy(policy())
}

/// Waits until the relay reports a problem with the database, and returns it.
pub(crate) async fn trouble(relay: &Relay) -> String {
    trouble_with(relay, "").await
}

/// Waits until the relay reports a problem that contains these words.
pub(crate) async fn trouble_with(relay: &Relay, words: &str) -> String {
    let mut trouble = None;
    eventually(&format!("the relay reports a problem: {words}"), async || {
        trouble = relay.status()[0].error.clone();
        trouble.as_deref().is_some_and(|said| said.contains(words))
    })
    .await;
    trouble.unwrap()
}

/// Waits until the relay reports no problem.
pub(crate) async fn recovered(relay: &Relay) {
    eventually("the database answers again", async || relay.status()[0].error.is_none()).await;
}

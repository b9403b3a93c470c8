//! Life with a database that fails: each test has a server of its own and does to it what happens to servers.
//!
//! What was delivered is compared with what the table holds at the end: nothing lost, nothing invented, every
//! key in its order. The cases are the same for every kind of server; [`TestServer`] is what a kind has to know, and
//! `server_fault_tests!` makes its tests.

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
use postrider_testkit::audit::{Sighting, Verdict, audit};
use postrider_testkit::servers::{Controlled, Copy};

pub(crate) use cases::server_fault_tests;
pub(crate) use recorder::Recorder;

/// Long enough for anything that will happen.
pub(crate) const LONG: Duration = Duration::from_secs(90);

/// Between two looks at something that will happen.
pub(crate) const LOOK_AFTER: Duration = Duration::from_millis(20);

/// Who relays connect as, with a password for servers that ask: a login with the role that the library's own
/// script makes for relays.
pub(crate) const RELAY: &str = "life_relay:secret";

/// Who writers connect as.
pub(crate) const WRITER: &str = "life_writer:secret";

/// How a server is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Plain,
    /// Everybody but the administrator is asked for a password.
    Passwords,
    /// Few connections, of which at least one is kept for the administrator.
    FewConnections,
    /// Data on a disk with little room.
    SmallDisk,
}

/// What is done to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// In good order.
    Stop,
    /// At once.
    Kill,
    Start,
}

/// Where and as whom a store connects, other than usual.
#[derive(Debug, Clone, Default)]
pub(crate) struct To {
    /// Of loopback, if not the server's own.
    pub(crate) port: Option<u16>,
    /// `user:password`, if not [`RELAY`].
    pub(crate) user: Option<&'static str>,
    pub(crate) schema: Option<Ident>,
    pub(crate) answer_within: Option<Duration>,
}

/// What an administrator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    ReadOnly,
    Writable,
    /// Takes the events after the fifth back, and the counter of positions.
    LastEventsGone,
    /// Takes all events back, and the counter of positions to the fifth.
    CounterReset,
    /// Makes a user `single` for relays, who may have one connection.
    OneConnection,
    MoreConnections,
    /// Takes from relays the right to write their progress down.
    SettlingDenied,
    SettlingAllowed,
    PasswordChanged,
    PasswordAsBefore,
    /// Ends the connections of [`RELAY`].
    RelayCut,
}

/// A server with an outbox, and what writes to it.
pub(crate) trait TestServer: Sized {
    /// What the server says to whom it has no connection for: to a user with a limit, and to everybody.
    const NO_CONNECTION: [&'static str; 2];
    /// What it says to who gives a wrong password.
    const WRONG_PASSWORD: &'static str;

    /// `None`, with a line that says why, if there is no server to be had.
    async fn new(wanted: Wanted) -> Result<Option<Self>>;

    /// The server itself.
    fn process(&self) -> Arc<dyn Controlled>;

    fn port(&self) -> u16 {
        self.process().port()
    }

    fn data(&self) -> PathBuf {
        self.process().data()
    }

    /// Does something to the server while everything else goes on.
    async fn act(&self, act: Act) {
        reported(&self.process(), move |server| match act {
            Act::Stop => server.stop(),
            Act::Kill => server.kill(),
            Act::Start => server.start(),
        })
        .await;
    }

    async fn back_up(&self) -> Copy {
        reported(&self.process(), |server| server.back_up()).await
    }

    /// Puts the server back to what it was.
    async fn restore(&self, copy: Copy) {
        reported(&self.process(), move |server| server.restore(&copy)).await;
    }

    async fn change(&self, change: Change) -> Result<()>;

    /// A store that is not connected yet.
    fn store(&self, to: To) -> Result<Arc<dyn Store>>;

    /// The same, connected and checked.
    async fn connect(&self, to: To) -> Result<Arc<dyn Store>>;

    /// Commits events, one by one, as a writer; as the administrator, for whom there is always a connection.
    async fn commit(&self, events: Vec<Event>) -> Result<()>;
    async fn commit_as_administrator(&self, events: Vec<Event>) -> Result<()>;

    /// Writes until told to stop, through everything that happens to the server.
    fn write_on(&self, stop: Arc<AtomicBool>) -> impl Future<Output = ()> + Send + 'static;

    /// Everything in the outbox, in its order, each with its number within its key.
    async fn committed(&self) -> Result<Vec<Sighting>>;

    /// Connects as somebody else until the server has no connection left but for the administrator.
    async fn take_all_connections(&self) -> Vec<Box<dyn Any>>;
}

/// Tells a server something that blocks, while everything else goes on.
pub(crate) async fn reported<S: Send + Sync + ?Sized + 'static, T: Send + 'static>(
    server: &Arc<S>,
    what: impl FnOnce(&S) -> Result<T, String> + Send + 'static,
) -> T {
    let server = server.clone();
    tokio::task::spawn_blocking(move || what(&server)).await.unwrap().unwrap()
}

/// Commits so many events, of five keys.
pub(crate) async fn write<W: TestServer>(server: &W, events: usize) -> Result<()> {
    server.commit(some(events)).await
}

pub(crate) fn some(events: usize) -> Vec<Event> {
    (0..events).map(|number| Event::new("life", "{}").with_key(format!("key {}", number % 5))).collect()
}

/// Settles at this address, delivers to this sink.
pub(crate) async fn relay_at(store: Arc<dyn Store>, sink: &Recorder) -> Result<Relay> {
    Relay::builder().outbox(store, [subscription(sink)]).spawn().await
}

pub(crate) async fn relay<W: TestServer>(server: &W, sink: &Recorder) -> Result<Relay> {
    relay_at(server.store(To::default())?, sink).await
}

/// What the table holds against what was delivered.
pub(crate) async fn verdict<W: TestServer>(server: &W, sink: &Recorder) -> Result<Verdict> {
    let committed = server.committed().await?;
    let unknown = || Sighting { id: Default::default(), key: String::new(), version: 0 };
    let known = |id| committed.iter().find(|event| event.id == id).cloned().unwrap_or_else(unknown);
    let delivered: Vec<Sighting> = sink.delivered().into_iter().map(known).collect();
    Ok(audit(&committed, &delivered))
}

pub(crate) async fn overview<W: TestServer>(server: &W) -> Result<SubscriptionOverview> {
    let overview = server.connect(To::default()).await?.overview(1_000).await?;
    Ok(overview.subscriptions.into_iter().next().unwrap())
}

/// Waits until everything up to a position is settled.
pub(crate) async fn settled<W: TestServer>(server: &W, floor: usize) {
    let floor = Position::new(floor as i64);
    eventually("all is settled", async || overview(server).await.is_ok_and(|seen| seen.floor == floor)).await;
}

/// Waits until the subscription waits for an operator, and answers with the reason.
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

/// Waits until it is so.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(LOOK_AFTER).await;
        }
    };
    assert!(tokio::time::timeout(LONG, waiting).await.is_ok(), "it never came that {what}");
}

/// Waits until the relay says what is wrong with the database, and answers with that.
pub(crate) async fn trouble(relay: &Relay) -> String {
    trouble_with(relay, "").await
}

/// Waits until the relay says something with these words about the database.
pub(crate) async fn trouble_with(relay: &Relay, words: &str) -> String {
    let mut trouble = None;
    eventually(&format!("the relay is in trouble: {words}"), async || {
        trouble = relay.status()[0].error.clone();
        trouble.as_deref().is_some_and(|said| said.contains(words))
    })
    .await;
    trouble.unwrap()
}

/// Waits until the relay has no trouble any more.
pub(crate) async fn at_ease(relay: &Relay) {
    eventually("the database answers again", async || relay.status()[0].error.is_none()).await;
}

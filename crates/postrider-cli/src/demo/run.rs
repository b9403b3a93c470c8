//! Runs writers, relay and view until the shop is closed and every event has arrived.

use std::sync::Arc;
use std::time::Duration;

use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::{Start, sqlite::SqliteStore};
use postrider::{Clock, Result, SystemClock};
use tokio::time::{MissedTickBehavior, interval};

use super::destination::{Metered, Receiver};
use super::folder::Folder;
use super::meter::Meter;
use super::plan::{Plan, WRITERS};
use super::report::{Report, Tested};
use super::shop::{Journal, Shop, Writers};
use super::snapshot::{Act, Lane, Snapshot, State};
use super::time_series::TimeSeries;
use super::view::View;
use crate::failure::Failure;
use crate::interrupt::Interrupts;

/// Time between two updates.
const TICK: Duration = Duration::from_millis(100);

/// The demo ends if no event arrives for this long after the shop has closed.
const PATIENCE: Duration = Duration::from_secs(15);

/// A subscription further behind than this is catching up.
const BACKLOG_NOTABLE: usize = 400;

/// Runs the demo and returns its result.
///
/// # Errors
/// An error of the database or a destination; [`Failure::Interrupted`] after a second Ctrl-C. After the first one, the
/// shop is closed early, which the report contains.
pub(crate) async fn run(
    plan: &Plan,
    folder: &Folder,
    receivers: Vec<Receiver>,
    view: &mut View,
) -> Result<Report, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let mut running = Running::start(plan, folder, receivers).await?;
    running.watch(view, &mut interrupts).await?;
    running.end().await
}

/// The demo while it runs.
struct Running<'a> {
    plan: &'a Plan,
    database: String,
    clock: SystemClock,
    journal: Arc<Journal>,
    writers: Writers,
    relay: Relay,
    lanes: Vec<Watching>,
    commits: TimeSeries,
    act: Act,
    interrupted: bool,
    /// When something was last committed or delivered, and the count then.
    moved: (Duration, u64),
}

/// A subscription and its history.
struct Watching {
    receiver: Receiver,
    meter: Arc<Meter>,
    deliveries: TimeSeries,
    oldest_max: Duration,
}

impl<'a> Running<'a> {
    async fn start(plan: &'a Plan, folder: &Folder, receivers: Vec<Receiver>) -> Result<Self> {
        let shop = Shop::found(&folder.database())?;
        let store = Arc::new(SqliteStore::open(folder.database())?);
        let lanes: Vec<Watching> = receivers.into_iter().map(Watching::new).collect();
        let relay = Relay::builder().outbox(store, lanes.iter().map(Watching::subscription)).spawn().await?;
        let journal = Journal::new(plan.events, lanes.iter().map(|lane| lane.meter.clone()).collect());
        let journal = Arc::new(journal);
        let writers = Writers::start(&shop, plan, &journal)?;
        Ok(Self {
            plan,
            database: folder.database().display().to_string(),
            clock: SystemClock::new(),
            journal,
            writers,
            relay,
            lanes,
            commits: TimeSeries::default(),
            act: Act::Open,
            interrupted: false,
            moved: (Duration::ZERO, 0),
        })
    }

    /// Updates the view until everything has ended.
    async fn watch(&mut self, view: &mut View, interrupts: &mut Interrupts) -> Result<(), Failure> {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = interrupts.next() => {
                    if self.interrupted {
                        return Err(Failure::Interrupted);
                    }
                    self.interrupted = true;
                    self.writers.close();
                }
                _ = tick.tick() => {
                    self.sample();
                    self.direct();
                    view.draw(&self.snapshot())?;
                    if self.is_over() {
                        return Ok(());
                    }
                }
                Some(ended) = self.writers.ended() => ended?,
                () = self.journal.news() => self.relay.wake(),
            }
        }
    }

    /// Starts the next phase when it is due.
    fn direct(&mut self) {
        let now = self.clock.now().elapsed;
        if self.plan.open_for.is_some_and(|end| end <= now) {
            self.writers.close();
        }
        self.act = match self.plan.outage() {
            _ if self.writers.are_gone() || self.interrupted => Act::Closed,
            Some(outage) if outage.contains(&now) => Act::Outage,
            Some(outage) if outage.end <= now && self.is_behind() => Act::Recovered,
            Some(outage) if outage.end <= now => Act::CaughtUp,
            _ => Act::Open,
        };
        for lane in &self.lanes {
            lane.receiver.destination.set_down(self.act == Act::Outage);
        }
    }

    fn sample(&mut self) {
        let now = self.clock.now();
        self.commits.sample(now.elapsed, self.journal.committed().len() as u64);
        let mut moved = self.commits.last();
        for lane in &mut self.lanes {
            lane.deliveries.sample(now.elapsed, lane.meter.deliveries());
            lane.oldest_max = lane.oldest_max.max(lane.meter.oldest(now.wall).unwrap_or_default());
            moved += lane.deliveries.last();
        }
        if moved != self.moved.1 {
            self.moved = (now.elapsed, moved);
        }
    }

    fn is_behind(&self) -> bool {
        self.lanes.iter().any(|lane| lane.meter.backlog() > BACKLOG_NOTABLE)
    }

    fn is_over(&self) -> bool {
        let waits = self.lanes.iter().any(|lane| lane.meter.backlog() > 0);
        let hopeless = self.clock.now().elapsed.saturating_sub(self.moved.0) > PATIENCE;
        self.writers.are_gone() && (!waits || hopeless)
    }

    fn snapshot(&self) -> Snapshot<'_> {
        let (now, committed) = (self.clock.now(), self.journal.committed().len());
        let status = self.relay.status();
        let lanes = self.lanes.iter().zip(&status).map(|(lane, status)| {
            let backlog = lane.meter.backlog();
            let state = match () {
                () if status.state.destinations_down > 0 => State::Down,
                () if status.state.leading.is_none() => State::Starting,
                () if self.writers.are_gone() && backlog == 0 => State::Done,
                () if backlog > BACKLOG_NOTABLE => State::CatchingUp,
                () => State::Flowing,
            };
            Lane {
                name: lane.receiver.name,
                target: &lane.receiver.target,
                state,
                backlog,
                oldest: lane.meter.oldest(now.wall),
                retries: lane.meter.retries(),
                parked: status.state.parked,
                deliveries: &lane.deliveries,
            }
        });
        let by_time = self.plan.open_for.map_or(0.0, |end| now.elapsed.as_secs_f64() / end.as_secs_f64());
        let by_events = self.plan.events.map_or(0.0, |events| committed as f64 / events as f64);
        Snapshot {
            elapsed: now.elapsed,
            expected: self.plan.expected(),
            progress: if self.writers.are_gone() { 1.0 } else { by_time.max(by_events).min(1.0) },
            act: self.act,
            database: self.database.clone(),
            writers: WRITERS,
            committed,
            rolled_back: self.journal.rolled_back(),
            commits: &self.commits,
            lanes: lanes.collect(),
            last: self.lanes.first().and_then(|lane| lane.meter.last()),
        }
    }

    /// Shuts down the relay cleanly and compares the events.
    async fn end(self) -> Result<Report, Failure> {
        let seconds = self.clock.now().elapsed.as_secs_f64();
        self.relay.shutdown().await?;
        let committed = self.journal.committed();
        let tested = self.lanes.iter().map(|lane| {
            let received = lane.receiver.destination.received()?;
            Ok(Tested::new(lane.receiver.name, &committed, &received)
                .retries(lane.meter.retries())
                .oldest_max(lane.oldest_max))
        });
        let tested = tested.collect::<Result<Vec<_>>>()?;
        Ok(Report::new(tested, self.journal.rolled_back(), seconds, self.interrupted))
    }
}

impl Watching {
    fn new(receiver: Receiver) -> Self {
        Self {
            receiver,
            meter: Arc::default(),
            deliveries: TimeSeries::default(),
            oldest_max: Duration::ZERO,
        }
    }

    fn subscription(&self) -> Subscription {
        let metered = Metered::new(self.receiver.destination.clone(), self.meter.clone());
        Subscription::new(self.receiver.name, metered).start(Start::Beginning).policy(policy())
    }
}

/// The defaults, with shorter times for the demo.
fn policy() -> Policy {
    Policy::default()
        .backoff_min(Duration::from_millis(100))
        .backoff_max(Duration::from_secs(1))
        .probe_min(Duration::from_millis(150))
        .probe_max(Duration::from_millis(300))
}

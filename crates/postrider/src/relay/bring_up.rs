//! Brings one outbox up: creates its subscriptions, waits for a database that is unavailable, and starts the tasks. Each
//! outbox does this in its own task, so that an unavailable database delays no other outbox.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc::{self, error::SendError};
use tokio::sync::{oneshot, watch};

use super::Subscription;
use super::handle::{RelayHandle, ServedSubscription};
use super::health_log::{HealthLog, Operation};
use super::served_as;
use super::served_outbox::ServedOutbox;
use crate::store::{Backlog, Store};
use crate::{Code, Error, Result};

/// First delay before an unreachable database is tried again; doubles with each attempt.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// Longest wait between two attempts.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// How long a start waits for the first answer of a database, if another outbox is ready.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Maximum number of events that are counted for the log line about a new subscription.
const BACKLOG_COUNTED_MAX: u64 = 10_000;

/// The answer of an outbox to the one that waits for the start.
enum Came {
    /// Its subscriptions exist. The receiver learns when its tasks have started, or will not.
    Up(oneshot::Receiver<()>),
    /// Its database is unavailable. It is tried again.
    Unavailable,
    /// It panicked. It is tried again, if it is not the only one.
    Panicked(Error),
    /// An error that waiting cannot resolve. The outbox is given up.
    Refused(Error),
}

/// Why an outbox is not up.
enum Failure {
    Error(Error),
    /// What the panic said.
    Panic(String),
}

/// Outboxes that come up together.
pub(super) struct BringUp {
    fail_fast: bool,
    /// It is enough that an outbox has answered.
    only_answered: bool,
    begin: watch::Sender<bool>,
    answers: mpsc::UnboundedSender<(usize, Came)>,
    answered: mpsc::UnboundedReceiver<(usize, Came)>,
    outboxes: usize,
}

impl BringUp {
    pub(super) fn new(fail_fast: bool) -> Self {
        let (answers, answered) = mpsc::unbounded_channel();
        let begin = watch::channel(false).0;
        Self { fail_fast, only_answered: false, begin, answers, answered, outboxes: 0 }
    }

    /// For outboxes that are added to a running relay.
    pub(super) fn while_running() -> Self {
        Self { only_answered: true, ..Self::new(false) }
    }

    /// Starts to bring an outbox up. Does nothing if the relay stops.
    pub(super) fn add(
        &mut self,
        relay: &RelayHandle,
        outbox: ServedOutbox,
        served: Vec<Arc<ServedSubscription>>,
    ) {
        let coming = ComingUp {
            number: self.outboxes,
            fail_fast: self.fail_fast,
            relay: relay.clone(),
            outbox,
            served,
            answers: self.answers.clone(),
            begin: self.begin.subscribe(),
        };
        self.outboxes += 1;
        relay.tasks().start(|stopped| coming.run(stopped));
    }

    /// Waits until one outbox is up, unless answers are enough, and until the others have answered, for
    /// [`ANSWER_MAX`] at most. Those that are up then start with [`Begin::begin`], and the others as soon as they are up.
    ///
    /// # Errors
    /// An error of an outbox that waiting cannot resolve. No task of an outbox has started; the others end when their
    /// relay does.
    pub(super) async fn finish(self) -> Result<Begin> {
        let Self { fail_fast, only_answered, begin, answers, mut answered, outboxes } = self;
        // Only the outboxes send.
        drop(answers);
        let (mut has_answered, mut up) = (vec![false; outboxes], Vec::new());
        let mut patience = std::pin::pin!(tokio::time::sleep(ANSWER_MAX));
        let is_done = |up: usize, has_answered: &[bool], is_late: bool| {
            let is_enough = !fail_fast && (up > 0 || only_answered);
            up == outboxes || is_enough && (is_late || has_answered.iter().all(|answered| *answered))
        };
        while !is_done(up.len(), &has_answered, patience.is_elapsed()) {
            tokio::select! {
                biased;
                answer = answered.recv() => match answer {
                    Some((_, Came::Panicked(error))) if fail_fast || outboxes == 1 => return Err(error),
                    Some(answer) => up.extend(take(answer, &mut has_answered)?),
                    None => return Err(Error::new(Code::RelayStopped, "the relay stops")),
                },
                () = &mut patience, if !patience.is_elapsed() => {}
            }
        }
        // From here on an outbox knows that its answer is not read.
        answered.close();
        while let Ok(answer) = answered.try_recv() {
            up.extend(take(answer, &mut has_answered)?);
        }
        Ok(Begin { begin, up })
    }
}

/// Outboxes that wait for the permission to start their tasks. If this is dropped, they end.
pub(super) struct Begin {
    begin: watch::Sender<bool>,
    up: Vec<oneshot::Receiver<()>>,
}

impl Begin {
    /// Returns when the tasks of all outboxes that are up have started.
    pub(super) async fn begin(self) {
        self.begin.send_replace(true);
        for started in self.up {
            // An error means that the relay stops.
            _ = started.await;
        }
    }
}

/// Returns the receiver of an outbox that came up.
fn take((number, came): (usize, Came), has_answered: &mut [bool]) -> Result<Option<oneshot::Receiver<()>>> {
    if let Some(answered) = has_answered.get_mut(number) {
        *answered = true;
    }
    match came {
        Came::Up(started) => Ok(Some(started)),
        Came::Unavailable | Came::Panicked(_) => Ok(None),
        Came::Refused(error) => Err(error),
    }
}

/// One outbox on its way up.
struct ComingUp {
    number: usize,
    fail_fast: bool,
    relay: RelayHandle,
    outbox: ServedOutbox,
    served: Vec<Arc<ServedSubscription>>,
    answers: mpsc::UnboundedSender<(usize, Came)>,
    begin: watch::Receiver<bool>,
}

impl ComingUp {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        tokio::select! {
            biased;
            _ = stopped.changed() => {}
            started = self.come_up() => if let Some(started) = started {
                self.outbox.start(&self.served, &self.relay);
                _ = started.send(());
            },
        }
    }

    /// Returns when its tasks may start, and who waits for that; `None` if they must not.
    async fn come_up(&mut self) -> Option<oneshot::Sender<()>> {
        for (subscription, served) in self.outbox.subscriptions.iter().zip(&self.served) {
            let health = HealthLog::new(&served.label(), self.relay.clock());
            let mut wait = WAIT_MIN;
            let store = &*self.outbox.store;
            while let Err(failure) = try_to_create(store, subscription, self.relay.name(), &health).await {
                if !self.may_try_again(failure, &health) {
                    return None;
                }
                self.served.iter().for_each(|served| served.driver.set_error(&health));
                tokio::time::sleep(wait).await;
                if self.is_given_up() {
                    return None;
                }
                wait = WAIT_MAX.min(wait * 2);
            }
            self.served.iter().for_each(|served| served.driver.set_error(&health));
        }
        let (started, waits) = oneshot::channel();
        _ = self.answers.send((self.number, Came::Up(waits)));
        self.begin.wait_for(|begun| *begun).await.is_ok().then_some(started)
    }

    fn panicked(&self, said: &str) -> Error {
        let outbox = match &self.outbox.options.name {
            Some(name) => format!("outbox {name:?}"),
            None => "an outbox".to_owned(),
        };
        let what = format!("{outbox} could not be opened, because Postrider panicked: {said}");
        Error::new(Code::RelayStopped, what)
            .with_effect("its events stay in the outbox; other outboxes are served")
    }

    /// The one that added it does not wait for it any more.
    fn is_given_up(&self) -> bool {
        self.begin.has_changed().is_err() && !*self.begin.borrow()
    }

    /// Logs the error and returns true, unless the one that waits for the start gets it.
    fn may_try_again(&self, failure: Failure, health: &HealthLog) -> bool {
        if self.is_given_up() {
            return false;
        }
        let error = match failure {
            Failure::Error(error) => error,
            Failure::Panic(said) => {
                _ = self.answers.send((self.number, Came::Panicked(self.panicked(&said))));
                _ = health.record::<()>(Operation::Subscribe, Err(self.panicked(&said)));
                return true;
            }
        };
        let error = if !self.fail_fast && error.code().may_recover_by_itself() {
            _ = self.answers.send((self.number, Came::Unavailable));
            error
        } else {
            match self.answers.send((self.number, Came::Refused(error))) {
                // The start is over. The other outboxes are served, and an operator may mend this one.
                Err(SendError((_, Came::Refused(error)))) => error,
                _ => return false,
            }
        };
        _ = health.record::<()>(Operation::Subscribe, Err(error));
        true
    }
}

/// As [`create`], and finds a panic, which would otherwise end the task without an answer.
async fn try_to_create(
    store: &dyn Store,
    subscription: &Subscription,
    relay: &str,
    health: &HealthLog,
) -> Result<(), Failure> {
    match AssertUnwindSafe(create(store, subscription, relay, health)).catch_unwind().await {
        Ok(created) => created.map_err(Failure::Error),
        Err(panic) => Err(Failure::Panic(said_by(&*panic))),
    }
}

/// The text of a panic.
fn said_by(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a text").to_owned()
}

/// Creates a subscription if it does not exist.
async fn create(
    store: &dyn Store,
    subscription: &Subscription,
    relay: &str,
    health: &HealthLog,
) -> Result<()> {
    let record = served_as::check(store, subscription, relay).await?;
    let is_new = match store.notifications() {
        Some(notifications) => notifications.register(&subscription.to_handler(), subscription.start).await?,
        None => store.subscribe(&subscription.name, subscription.start).await?,
    };
    served_as::note(store, &subscription.name, record).await?;
    _ = health.record(Operation::Subscribe, Ok(()));
    if is_new {
        log_created(store, subscription).await;
    }
    Ok(())
}

/// Logs that a subscription was created, where it begins, and how many existing events it will deliver. If it skips
/// events, that is a warning. If the overview fails, only the creation is logged.
async fn log_created(store: &dyn Store, of: &Subscription) {
    let Ok(overview) = store.overview(BACKLOG_COUNTED_MAX).await else {
        tracing::info!(subscription = of.name, start = ?of.start, "subscription created");
        return;
    };
    let created = overview.subscriptions.iter().find(|subscription| subscription.name == of.name);
    let (skipped, backlog) =
        created.map_or((0, Backlog::default()), |created| (created.floor.get(), created.backlog));
    let (subscription, start, waiting) = (&of.name, of.start, backlog.events);
    if skipped > 0 {
        tracing::warn!(
            subscription,
            ?start,
            last_position_skipped = skipped,
            waiting,
            "subscription created; events before its start are not delivered to it"
        );
    } else if waiting > 0 {
        let at_least = if backlog.more { "at least " } else { "" };
        tracing::info!(
            subscription,
            ?start,
            "subscription created; it starts with the {at_least}{waiting} event(s) already in the outbox"
        );
    } else {
        tracing::info!(subscription, ?start, "subscription created");
    }
}

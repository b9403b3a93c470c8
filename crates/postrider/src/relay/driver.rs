//! Runs a brain: waits for the next input, steps the brain, performs the effects. Makes no decisions itself.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use uuid::Uuid;

use super::Subscription;
use super::brain::{Brain, Effect, Input, Reply, Report, Setup, Step, SubscriptionState, Term};
use super::effects::{CallResult, Effects};
use super::health_log::HealthLog;
use super::publish::Publisher;
use super::report::{Reports, display_destination};
use super::routing::Routing;
use crate::store::{Claimer, RelayReport, Store, Wakes};
use crate::{Clock, Code};

/// How long a relay that stops waits for its last report.
const LAST_REPORT_MAX: Duration = Duration::from_secs(1);

/// How much later than a sink's own time limit the relay gives up waiting for it.
const SINK_TIMEOUT_MARGIN: Duration = Duration::from_secs(5);

/// The status of one subscription in one relay.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SubscriptionStatus {
    /// Its name.
    pub subscription: String,
    /// Its state in this relay.
    pub state: SubscriptionState,
    /// Events since the relay started that no rule matched and that the router is configured to skip
    /// ([`Unrouted::Skip`](crate::route::Unrouted::Skip)). An event that is read again after a takeover counts again.
    pub skipped: u64,
    /// The current error of the database, or of the takeover at the destination, if there is one. The operation is
    /// retried until it succeeds.
    pub error: Option<String>,
    /// The code of that error. With [`Recovery::Operator`](crate::Recovery::Operator) it does not end without an
    /// operator.
    pub error_code: Option<Code>,
}

/// What other tasks use to reach a driver.
#[derive(Debug)]
pub(super) struct DriverHandle {
    wake: Notify,
    /// Wakes the fan-out of the outbox, if it has one: new events reach the driver through it.
    fan_out: Option<Arc<Notify>>,
    pause: Notify,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    status: SubscriptionStatus,
    paused: Option<String>,
}

impl DriverHandle {
    pub(super) fn new(subscription: &str, fan_out: Option<Arc<Notify>>) -> Self {
        let status = SubscriptionStatus { subscription: subscription.to_owned(), ..Default::default() };
        let shared = Mutex::new(Shared { status, paused: None });
        Self { wake: Notify::new(), fan_out, pause: Notify::new(), shared }
    }

    /// There may be new events.
    pub(super) fn wake(&self) {
        if let Some(fan_out) = &self.fan_out {
            fan_out.notify_one();
        }
        self.wake_driver();
    }

    /// There may be new events that are fanned out.
    pub(super) fn wake_driver(&self) {
        self.wake.notify_one();
    }

    pub(super) fn pause(&self, reason: Option<String>) {
        self.with(|shared| shared.paused = reason);
        self.pause.notify_one();
    }

    pub(super) fn status(&self) -> SubscriptionStatus {
        self.with(|shared| shared.status.clone())
    }

    fn with<T>(&self, act: impl FnOnce(&mut Shared) -> T) -> T {
        act(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Wakes the drivers at every wake-up of the store of their outbox, until the relay stops.
pub(super) async fn forward_wakes(
    mut wakes: Box<dyn Wakes>,
    drivers: Vec<Arc<DriverHandle>>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => return,
            () = wakes.next() => drivers.iter().for_each(|driver| driver.wake()),
        }
    }
}

/// Runs one subscription's brain.
pub(super) struct Driver {
    brain: Brain,
    clock: Arc<dyn Clock>,
    effects: Effects,
    handle: Arc<DriverHandle>,
    /// Reads the outbox for the current term; `None` while a claim is in progress, which holds it.
    claimer: Option<Box<dyn Claimer>>,
    term: Term,
    /// Calls in progress.
    calls: JoinSet<CallResult>,
    /// Outcomes that are known before the rest of their batch.
    early: mpsc::UnboundedReceiver<(Term, Reply)>,
    /// The reply that the brain gets if a call panics, for each call in progress.
    panic_replies: HashMap<Id, (AbortHandle, Term, Reply)>,
    /// The report in progress, if there is one. Reports are for operators; the brain never waits for one.
    reporting: JoinSet<()>,
    /// Something happened that a report should contain, or the last report is about to expire.
    report_due: bool,
    stopped: bool,
    reports: Reports,
}

impl Driver {
    pub(super) fn new(
        holder: &str,
        clock: Arc<dyn Clock>,
        store: Arc<dyn Store>,
        subscription: Subscription,
        handle: Arc<DriverHandle>,
    ) -> Self {
        let Subscription { name, mut policy, router, encoder, sink, .. } = subscription;
        policy.several_destinations |= router.has_several_destinations();
        let capabilities = sink.capabilities();
        if let Some(probe_max) = capabilities.probe_max {
            policy.probe_max = policy.probe_max.min(probe_max).max(policy.probe_min);
        }
        if let Some(own) = capabilities.message_timeout {
            // The sink returns an outcome by then. A call that is given up earlier would be repeated without a fault.
            let longest = own.saturating_add(SINK_TIMEOUT_MARGIN);
            policy.publish_timeout = policy.publish_timeout.max(longest);
            policy.drain_timeout = policy.drain_timeout.max(longest);
        }
        let setup = Setup {
            subscription: name.clone(),
            policy: policy.clone(),
            prefix_safe: capabilities.prefix_safe,
            in_flight_max: capabilities.in_flight_max.map(NonZeroUsize::get),
            counts_expired: store.notifications().is_none(),
            seed: Uuid::now_v7().as_u64_pair().1,
        };
        let health = HealthLog::new(&name);
        let publisher = Publisher {
            subscription: name.as_str().into(),
            sink,
            encoder,
            timeout: policy.publish_timeout,
            copies: Arc::default(),
        };
        let reports = Reports::new(&name, holder);
        let (early_sender, early) = mpsc::unbounded_channel();
        let effects = Effects {
            subscription: name,
            holder: holder.to_owned(),
            store,
            routing: Arc::new(Routing::new(router, policy.order)),
            publisher,
            early: early_sender,
            policy,
            health: Arc::new(health),
        };
        Self {
            brain: Brain::new(setup),
            clock,
            effects,
            handle,
            claimer: None,
            term: Term::default(),
            calls: JoinSet::new(),
            early,
            panic_replies: HashMap::new(),
            reporting: JoinSet::new(),
            report_due: false,
            stopped: false,
            reports,
        }
    }

    /// Runs until the brain stops.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut input = Input::Tick;
        loop {
            let now = self.clock.now();
            let step = self.brain.step(now, input);
            self.reports.log_suppressed(now.elapsed);
            self.perform(step);
            self.handle.with(|shared| {
                shared.status.state = self.brain.snapshot();
                shared.status.skipped = self.effects.routing.skipped();
                shared.status.error = self.effects.health.message();
                shared.status.error_code = self.effects.health.code();
            });
            self.report();
            if self.stopped {
                break;
            }
            input = self.next_input(&mut stop).await;
        }
        self.reports.log_suppressed(Duration::MAX);
        // Only halts and releases can still be in progress; wait for them.
        while self.calls.join_next().await.is_some() {}
        // A database that does not answer must not delay the end; an old report expires by itself.
        let last = async { while self.reporting.join_next().await.is_some() {} };
        _ = tokio::time::timeout(LAST_REPORT_MAX, last).await;
        self.effects.publisher.sink.close().await;
    }

    async fn next_input(&mut self, stop: &mut watch::Receiver<bool>) -> Input {
        let handle = self.handle.clone();
        // Created once: a call that ends without a reply must not postpone the tick.
        let clock = self.clock.clone();
        let mut tick = pin!(sleep_until(&*clock, self.brain.due()));
        loop {
            tokio::select! {
                biased;
                Ok(()) = stop.changed() => return Input::Shutdown,
                Some((term, reply)) = self.early.recv() => return Input::Reply(term, reply),
                Some(ended) = self.calls.join_next_with_id() => {
                    if let Some(input) = self.call_ended(ended) {
                        return input;
                    }
                }
                () = handle.pause.notified() => return Input::Pause(handle.with(|shared| shared.paused.clone())),
                () = handle.wake.notified() => return Input::Wake,
                () = &mut tick => return Input::Tick,
            }
        }
    }

    fn call_ended(&mut self, ended: Result<(Id, CallResult), JoinError>) -> Option<Input> {
        match ended {
            Ok((id, CallResult { term, reply, claimer })) => {
                self.panic_replies.remove(&id);
                if term == self.term && claimer.is_some() {
                    self.claimer = claimer;
                }
                Some(Input::Reply(term, reply))
            }
            Err(error) => {
                let (_, term, reply) = self.panic_replies.remove(&error.id())?;
                error.is_panic().then_some(Input::Reply(term, reply))
            }
        }
    }

    /// Records what `status` shows about this relay, if that is due and no report is in progress.
    fn report(&mut self) {
        while self.reporting.try_join_next().is_some() {}
        if !self.report_due || (!self.reporting.is_empty() && !self.stopped) {
            return;
        }
        self.report_due = false;
        let mut down = self.brain.snapshot().down;
        down.iter_mut().for_each(|of| of.destination = display_destination(&of.destination).into_owned());
        let report = RelayReport {
            subscription: self.effects.subscription.clone(),
            relay: self.effects.holder.clone(),
            role: self.brain.role(),
            duration: self.effects.policy.lease,
            down,
        };
        let store = self.effects.store.clone();
        self.reporting.spawn(async move {
            if let Err(error) = store.report(report).await {
                tracing::debug!(error = %error.one_line(), "the report for `status` was not written");
            }
        });
    }

    fn perform(&mut self, step: Step) {
        if step.term != self.term {
            self.start_term(step.term);
        }
        for effect in step.effects {
            self.report_due |= makes_report_due(&effect);
            match &effect {
                Effect::Report(report) => self.reports.log(report),
                Effect::Stop => self.stopped = true,
                Effect::Release { .. } => {
                    // The time to drain is over, and nothing may be published without the lease.
                    self.abort_calls();
                    self.call(effect);
                }
                _ => self.call(effect),
            }
        }
    }

    /// Starts another term: cancels the calls of the last one and drops its claimer.
    fn start_term(&mut self, term: Term) {
        self.term = term;
        self.claimer = None;
        self.abort_calls();
    }

    /// Cancels all calls except releases and halts.
    fn abort_calls(&self) {
        for (call, _, reply) in self.panic_replies.values() {
            if !matches!(reply, Reply::Released) {
                call.abort();
            }
        }
    }

    fn call(&mut self, effect: Effect) {
        let panic_reply = reply_to_panic(&effect);
        if let Some(call) = self.effects.perform(self.term, effect, &mut self.claimer) {
            let call = self.calls.spawn(call);
            self.panic_replies.insert(call.id(), (call, self.term, panic_reply));
        }
    }
}

/// Whether a report is due after this effect. Renewals and requests for the lease are among them because they occur
/// several times per lease, so that a report never expires while the relay runs.
fn makes_report_due(effect: &Effect) -> bool {
    match effect {
        Effect::Renew(_) | Effect::Acquire | Effect::Stop => true,
        Effect::Report(report) => matches!(
            report,
            Report::Leading { .. }
                | Report::StandingBy { .. }
                | Report::BreakerOpened { .. }
                | Report::BreakerClosed { .. }
        ),
        _ => false,
    }
}

/// The reply that the brain gets if the call for an effect panics.
fn reply_to_panic(effect: &Effect) -> Reply {
    match effect {
        Effect::Acquire => Reply::Acquired(Err(Code::StoreFailed)),
        Effect::Renew(_) => Reply::Renewed(Err(Code::StoreFailed)),
        Effect::Claim(_) => Reply::Claimed(Err(Code::StoreFailed)),
        Effect::Fetch(..) => Reply::Fetched(Err(Code::StoreFailed)),
        Effect::Settle(_) => Reply::Settled(Err(Code::OutcomeUnknown)),
        // The brain treats a missing outcome as ambiguous.
        Effect::Publish(batch, _) => Reply::Published(*batch, Vec::new()),
        Effect::Pause { .. } => Reply::Paused,
        Effect::Release { .. } | Effect::Halt { .. } | Effect::Report(_) | Effect::Stop => Reply::Released,
    }
}

async fn sleep_until(clock: &dyn Clock, due: Option<Duration>) {
    match due {
        Some(due) => clock.sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;
    use crate::SystemClock;
    use crate::relay::Policy;
    use crate::sink::{Message, Outcome, Sink};
    use crate::store::sqlite::SqliteStore;
    use crate::{BoxFuture, Result};

    struct Unused;

    impl Sink for Unused {
        fn publish<'a>(&'a self, _: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
            Box::pin(std::future::ready(Vec::new()))
        }
    }

    #[tokio::test]
    async fn calls_that_are_cancelled_do_not_postpone_the_tick() -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("outbox.db");
        SqliteStore::migrate(&file)?;
        let policy = Policy::default().lease(Duration::from_millis(900));
        let subscription = Subscription::new("mail", Unused).policy(policy);
        let (clock, store) = (Arc::new(SystemClock::new()), Arc::new(SqliteStore::open(&file)?));
        let handle = Arc::new(DriverHandle::new("mail", None));
        let mut driver = Driver::new("relay", clock.clone(), store, subscription, handle);
        // A request for the lease that fails: the next one is due about 30 ms later.
        let Step { term, .. } = driver.brain.step(clock.now(), Input::Tick);
        let refused = Input::Reply(term, Reply::Acquired(Err(Code::StoreBusy)));
        driver.brain.step(clock.now(), refused);

        let calls: Vec<AbortHandle> =
            (0..5_000).map(|_| driver.calls.spawn(std::future::pending())).collect();
        let cancelled = calls.clone();
        let cancelling = tokio::spawn(async move {
            for call in cancelled {
                call.abort();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let (_stop, mut stopped) = watch::channel(false);
        let input = driver.next_input(&mut stopped).await;
        assert!(matches!(input, Input::Tick), "{input:?}");
        assert!(calls.iter().any(|call| !call.is_finished()), "the tick came after the last cancelled call");
        cancelling.abort();
        Ok(())
    }
}

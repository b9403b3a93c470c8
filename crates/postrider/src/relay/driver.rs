//! Runs a brain: waits for the next input, steps the brain, performs the effects. Makes no decisions itself.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use uuid::Uuid;

use super::Subscription;
use super::brain::{Brain, Effect, Input, Reply, Report, Setup, StepOutput, SubscriptionState, Term};
use super::driver_handle::DriverHandle;
use super::effects::{CallResult, Effects};
use super::health_log::HealthLog;
use super::heartbeat::Heartbeat;
use super::meter::{GaugePace, Meter};
use super::publish::Publisher;
use super::report::{Reports, display_destination};
use super::routing::Routing;
use crate::store::{Claimer, RelayFacts, RelayReport, Store};
use crate::{Clock, Code, Now};

/// How long a relay that stops waits for its last report.
const LAST_REPORT_MAX: Duration = Duration::from_secs(1);

/// How much later than a sink's own time limit the relay gives up waiting for it.
const SINK_TIMEOUT_MARGIN: Duration = Duration::from_secs(5);

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
    /// When the next report is due, and what it contains besides the state of the brain.
    heartbeat: Heartbeat,
    settings_digest: String,
    gauges: GaugePace,
    /// Skipped events that are counted.
    skipped: u64,
    stopped: bool,
    reports: Reports,
}

impl Driver {
    pub(super) fn new(
        clock: Arc<dyn Clock>,
        store: Arc<dyn Store>,
        subscription: Subscription,
        handle: Arc<DriverHandle>,
    ) -> Self {
        let Subscription { name, mut policy, router, encoder, sink, sink_name, settings_digest, .. } =
            subscription;
        let metrics_outbox = handle.metrics_outbox();
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
        let (label, holder) = (handle.label(), handle.holder());
        let meter = Arc::new(Meter::new(metrics_outbox.as_deref(), &name, sink_name.as_deref()));
        meter.begin();
        let health = HealthLog::new(&label, clock.clone()).with_meter(meter.clone());
        let publisher = Publisher {
            subscription: name.as_str().into(),
            sink,
            encoder,
            timeout: policy.publish_timeout,
            copies: Arc::default(),
        };
        let reports = Reports::new(&label, &holder);
        let lease = policy.lease;
        let (early_sender, early) = mpsc::unbounded_channel();
        let effects = Effects {
            subscription: name,
            holder,
            store,
            routing: Arc::new(Routing::new(router, policy.order, publisher.encoder.clone())),
            publisher,
            early: early_sender,
            policy,
            health: Arc::new(health),
            meter,
            clock: clock.clone(),
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
            heartbeat: Heartbeat::new(lease),
            settings_digest,
            gauges: GaugePace::default(),
            skipped: 0,
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
            let state = self.brain.snapshot();
            self.heartbeat.observe(now, self.brain.role(), &state);
            self.report(now, &state);
            self.measure(now, &state);
            self.handle.with(|shared| {
                shared.status.state = state;
                shared.status.skipped = self.effects.routing.skipped();
                shared.status.last_progress_at = self.heartbeat.last_progress_at();
            });
            self.handle.set_error(&self.effects.health);
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
        let mut tick = pin!(sleep_until(&*clock, self.next_due()));
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
                // The next report may be due already.
                Some(_) = self.reporting.join_next() => return Input::Tick,
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

    /// When to step the brain, or to report, if nothing happens before.
    fn next_due(&self) -> Option<Duration> {
        let report = self.reporting.is_empty().then(|| self.heartbeat.due());
        [self.brain.due(), report].into_iter().flatten().min()
    }

    /// Gives numbers to the recorder of the program.
    fn measure(&mut self, now: Now, state: &SubscriptionState) {
        if self.gauges.is_due(now.elapsed, state) {
            self.effects.meter.state(state, self.heartbeat.last_progress_at());
            let skipped = self.effects.routing.skipped();
            self.effects.meter.skipped(skipped.saturating_sub(self.skipped));
            self.skipped = skipped;
        }
    }

    /// Records what `status` shows about this relay, if that is due and no report is in progress.
    fn report(&mut self, now: Now, state: &SubscriptionState) {
        while self.reporting.try_join_next().is_some() {}
        let is_due = self.heartbeat.due() <= now.elapsed && self.reporting.is_empty();
        if !is_due && !self.stopped {
            return;
        }
        let facts = RelayFacts {
            settings: self.settings_digest.clone(),
            last_error: self.effects.health.last(),
            undecided: self.effects.meter.undecided(),
            events_per_second_max: self.effects.policy.events_per_second_max,
            bytes_per_second_max: self.effects.policy.bytes_per_second_max,
            ..self.heartbeat.start(now, state)
        };
        let mut down = state.down.clone();
        down.iter_mut().for_each(|of| of.destination = display_destination(&of.destination).into_owned());
        let report = RelayReport {
            subscription: self.effects.subscription.clone(),
            relay: self.effects.holder.clone(),
            role: self.brain.role(),
            duration: self.effects.policy.lease,
            down,
            facts,
        };
        let store = self.effects.store.clone();
        self.reporting.spawn(async move {
            if let Err(error) = store.report(report).await {
                tracing::debug!(error = %error.one_line(), "the report for `status` was not written");
            }
        });
    }

    fn perform(&mut self, step: StepOutput) {
        if step.term != self.term {
            self.start_term(step.term);
        }
        for effect in step.effects {
            match &effect {
                Effect::Report(report) => {
                    self.reports.log(report, self.clock.now().elapsed);
                    self.effects.meter.reported(report);
                    if is_change(report) {
                        self.heartbeat.changed();
                    }
                }
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

/// Whether operators should see this soon.
fn is_change(report: &Report) -> bool {
    matches!(
        report,
        Report::Leading { .. }
            | Report::StandingBy { .. }
            | Report::TermEnded(_)
            | Report::BreakerOpened { .. }
            | Report::BreakerClosed { .. }
    )
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
        let handle = Arc::new(DriverHandle::new("mail", None, "relay", None));
        let mut driver = Driver::new(clock.clone(), store, subscription, handle);
        // A request for the lease that fails: the next one is due about 30 ms later.
        let StepOutput { term, .. } = driver.brain.step(clock.now(), Input::Tick);
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

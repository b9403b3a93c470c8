//! The thin driver around a brain: waits for the next thing to happen, asks the brain, does what it says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use uuid::Uuid;

use super::Subscription;
use super::brain::{Brain, Effect, Input, Reply, Report, Setup, Snapshot, Step, Term};
use super::effects::{Done, Effects};
use super::health_log::HealthLog;
use super::publish::Publisher;
use super::report::{Reports, shown};
use super::routing::Routing;
use crate::store::{Claimer, RelayReport, Store};
use crate::{Clock, Code};

/// How long a relay that stops waits for its last report.
const LAST_REPORT_MAX: Duration = Duration::from_secs(1);

/// How one subscription is doing in one relay.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SubscriptionStatus {
    /// Its name.
    pub subscription: String,
    /// What its brain says.
    pub brain: Snapshot,
    /// Events since the relay started that no rule matched and that count as done, because the router says
    /// so ([`Unrouted::Skip`](crate::route::Unrouted::Skip)). One read again after a takeover counts again.
    pub skipped: u64,
    /// What is wrong with the database, or with taking the destination over, while something is. It is tried again
    /// until it works.
    pub trouble: Option<String>,
    /// The code of that trouble. With [`Recovery::Person`](crate::Recovery::Person) it does not end by itself.
    pub trouble_code: Option<Code>,
}

/// What the rest of the relay holds of a driver.
#[derive(Debug)]
pub(super) struct DriverHandle {
    wake: Notify,
    pause: Notify,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    status: SubscriptionStatus,
    paused: Option<String>,
}

impl DriverHandle {
    pub(super) fn new(subscription: &str) -> Self {
        let status = SubscriptionStatus { subscription: subscription.to_owned(), ..Default::default() };
        let shared = Mutex::new(Shared { status, paused: None });
        Self { wake: Notify::new(), pause: Notify::new(), shared }
    }

    pub(super) fn wake(&self) {
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

/// Runs one subscription's brain.
pub(super) struct Driver {
    brain: Brain,
    clock: Arc<dyn Clock>,
    effects: Effects,
    handle: Arc<DriverHandle>,
    /// Reads the outbox for the current term; away while a claim is under way.
    claimer: Option<Box<dyn Claimer>>,
    term: Term,
    /// Calls under way, each with what to tell the brain if the call panics.
    calls: JoinSet<Done>,
    if_it_panics: HashMap<Id, (AbortHandle, Term, Reply)>,
    /// The report under way, if one is: for people, and never waited for by the brain.
    reporting: JoinSet<()>,
    /// Something happened that a report should tell, or it is time to renew it.
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
        let Subscription { name, start: _, mut policy, router, encoder, sink } = subscription;
        policy.several_destinations |= router.has_several_destinations();
        let capabilities = sink.capabilities();
        if let Some(probe_max) = capabilities.probe_max {
            policy.probe_max = policy.probe_max.min(probe_max).max(policy.probe_min);
        }
        let setup = Setup {
            subscription: name.clone(),
            policy: policy.clone(),
            prefix_safe: capabilities.prefix_safe,
            seed: Uuid::now_v7().as_u64_pair().1,
        };
        let health = HealthLog::new(&name);
        let publisher = Publisher {
            subscription: name.as_str().into(),
            sink,
            encoder,
            timeout: policy.publish_timeout,
            fanout: Arc::default(),
        };
        let reports = Reports::new(&name, holder);
        let effects = Effects {
            subscription: name,
            holder: holder.to_owned(),
            store,
            routing: Arc::new(Routing::new(router, policy.order)),
            publisher,
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
            if_it_panics: HashMap::new(),
            reporting: JoinSet::new(),
            report_due: false,
            stopped: false,
            reports,
        }
    }

    /// Runs until the brain says stop.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut input = Input::Tick;
        loop {
            let now = self.clock.now();
            let step = self.brain.step(now, input);
            self.reports.tell_what_was_left_out(now.elapsed);
            self.perform(step);
            self.handle.with(|shared| {
                shared.status.brain = self.brain.snapshot();
                shared.status.skipped = self.effects.routing.skipped();
                shared.status.trouble = self.effects.health.message();
                shared.status.trouble_code = self.effects.health.code();
            });
            self.report();
            if self.stopped {
                break;
            }
            input = self.next_input(&mut stop).await;
        }
        self.reports.tell_what_was_left_out(Duration::MAX);
        // Halts and releases that are still under way are finished; nothing else is left.
        while self.calls.join_next().await.is_some() {}
        // A database that does not answer must not hold the end up: the report runs out by itself.
        let last = async { while self.reporting.join_next().await.is_some() {} };
        _ = tokio::time::timeout(LAST_REPORT_MAX, last).await;
        self.effects.publisher.sink.close().await;
    }

    async fn next_input(&mut self, stop: &mut watch::Receiver<bool>) -> Input {
        let handle = self.handle.clone();
        let wait = self.brain.due().map(|due| due.saturating_sub(self.clock.now().elapsed));
        loop {
            tokio::select! {
                biased;
                Ok(()) = stop.changed() => return Input::Shutdown,
                Some(ended) = self.calls.join_next_with_id() => {
                    if let Some(input) = self.ended(ended) {
                        return input;
                    }
                }
                () = handle.pause.notified() => return Input::Pause(handle.with(|shared| shared.paused.clone())),
                () = handle.wake.notified() => return Input::Wake,
                () = sleep(wait) => return Input::Tick,
            }
        }
    }

    fn ended(&mut self, ended: Result<(Id, Done), JoinError>) -> Option<Input> {
        match ended {
            Ok((id, Done { term, reply, claimer })) => {
                self.if_it_panics.remove(&id);
                if term == self.term && claimer.is_some() {
                    self.claimer = claimer;
                }
                Some(Input::Reply(term, reply))
            }
            Err(error) => {
                let (_, term, reply) = self.if_it_panics.remove(&error.id())?;
                error.is_panic().then_some(Input::Reply(term, reply))
            }
        }
    }

    /// Writes down what `status` shows of this relay, if that is due and the last one is done.
    fn report(&mut self) {
        while self.reporting.try_join_next().is_some() {}
        if !self.report_due || (!self.reporting.is_empty() && !self.stopped) {
            return;
        }
        self.report_due = false;
        let mut down = self.brain.snapshot().down;
        down.iter_mut().for_each(|of| of.destination = shown(&of.destination).into_owned());
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
            self.enter(step.term);
        }
        for effect in step.effects {
            self.report_due |= is_worth_a_report(&effect);
            match &effect {
                Effect::Report(report) => self.reports.log(report),
                Effect::Stop => self.stopped = true,
                Effect::Release { .. } => {
                    // Whatever is still out has had its time; nothing may be published without the lease.
                    self.drop_calls();
                    self.call(effect);
                }
                _ => self.call(effect),
            }
        }
    }

    /// Another term: what the last one had under way is dropped, and its reader with it.
    fn enter(&mut self, term: Term) {
        self.term = term;
        self.claimer = None;
        self.drop_calls();
    }

    /// Drops everything under way but what gives the lease up or stops the subscription.
    fn drop_calls(&self) {
        for (call, _, reply) in self.if_it_panics.values() {
            if !matches!(reply, Reply::Released) {
                call.abort();
            }
        }
    }

    fn call(&mut self, effect: Effect) {
        let if_it_panics = reply_to_panic(&effect);
        if let Some(call) = self.effects.perform(self.term, effect, &mut self.claimer) {
            let call = self.calls.spawn(call);
            self.if_it_panics.insert(call.id(), (call, self.term, if_it_panics));
        }
    }
}

/// Whether `status` should show what follows from it. Renewals and tries to lead come several times per lease, so that
/// reports do not run out.
fn is_worth_a_report(effect: &Effect) -> bool {
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

/// What to tell the brain if the call for an effect panics.
fn reply_to_panic(effect: &Effect) -> Reply {
    match effect {
        Effect::Acquire => Reply::Acquired(Err(Code::StoreFailed)),
        Effect::Renew(_) => Reply::Renewed(Err(Code::StoreFailed)),
        Effect::Claim(_) => Reply::Claimed(Err(Code::StoreFailed)),
        Effect::Fetch(..) => Reply::Fetched(Err(Code::StoreFailed)),
        Effect::Settle(_) => Reply::Settled(Err(Code::OutcomeUnknown)),
        // The brain takes a missing outcome for an ambiguous one.
        Effect::Publish(batch, _) => Reply::Published(*batch, Vec::new()),
        Effect::Pause { .. } => Reply::Paused,
        Effect::Release { .. } | Effect::Halt { .. } | Effect::Report(_) | Effect::Stop => Reply::Released,
    }
}

async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

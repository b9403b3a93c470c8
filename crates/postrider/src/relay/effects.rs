//! Performs the brain's effects: each effect becomes one call, and each call returns one reply.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Policy;
use super::brain::{Acquisition, Effect, Reply, RoutedFetch, Term};
use super::health_log::{HealthLog, Operation};
use super::meter::{BatchAnswer, Meter};
use super::publish::Publisher;
use super::routing::Routing;
use crate::encode::Encoder;
use crate::sink::{EarlyOutcomes, Outcome, Sink};
use crate::store::{Acquired, Claimed, Claimer, LeaseRequest, Settled, Store};
use crate::{BoxFuture, Clock, Code, Error};

/// What the effects of one subscription need.
#[derive(Clone)]
pub(super) struct Effects {
    pub(super) subscription: String,
    pub(super) holder: String,
    pub(super) store: Arc<dyn Store>,
    pub(super) routing: Arc<Routing>,
    pub(super) publisher: Publisher,
    /// Where outcomes go that are known before the rest of their batch. Holds at most one per message in flight.
    pub(super) early: mpsc::UnboundedSender<(Term, Reply)>,
    pub(super) policy: Policy,
    /// Logs errors of the database, and of the takeover at the destination.
    pub(super) health: Arc<HealthLog>,
    pub(super) meter: Arc<Meter>,
    pub(super) clock: Arc<dyn Clock>,
}

/// The reply of a call, and the claimer if the call used it.
pub(super) struct CallResult {
    pub(super) term: Term,
    pub(super) reply: Reply,
    pub(super) claimer: Option<Box<dyn Claimer>>,
}

impl Effects {
    /// The call for an effect; `None` for `Report` and `Stop`, which need none.
    pub(super) fn perform(
        &self,
        term: Term,
        effect: Effect,
        claimer: &mut Option<Box<dyn Claimer>>,
    ) -> Option<BoxFuture<'static, CallResult>> {
        let (store, routing, subscription) =
            (self.store.clone(), self.routing.clone(), self.subscription.clone());
        let health = self.health.clone();
        let done = move |reply| CallResult { term, reply, claimer: None };
        Some(match effect {
            Effect::Acquire => {
                let effects = self.clone();
                Box::pin(async move {
                    let (acquired, claimer) = effects.acquire().await.map_or_else(
                        |code| (Err(code), None),
                        |(acquisition, claimer)| (Ok(acquisition), claimer),
                    );
                    CallResult { term, reply: Reply::Acquired(acquired), claimer }
                })
            }
            Effect::Renew(epoch) => {
                let lease = self.lease();
                Box::pin(async move {
                    done(Reply::Renewed(health.watch(Operation::Renew, store.renew(lease, epoch)).await))
                })
            }
            Effect::Release { epoch, clean } => Box::pin(async move {
                _ = health.watch(Operation::Release, store.release(&subscription, epoch, clean)).await;
                done(Reply::Released)
            }),
            Effect::Claim(budget) => {
                let mut claimer = claimer.take()?;
                let meter = self.meter.clone();
                Box::pin(async move {
                    let claimed = health.watch(Operation::Claim, claimer.claim(budget)).await;
                    if let Ok(Claimed::Page(page)) = &claimed {
                        meter.claimed(page);
                    }
                    let reply = Reply::Claimed(claimed.map(|claimed| routing.claim(claimed)));
                    CallResult { term, reply, claimer: Some(claimer) }
                })
            }
            Effect::Fetch(positions, bytes_max) => Box::pin(async move {
                let fetched = health.watch(Operation::Fetch, store.fetch(positions, bytes_max)).await;
                done(Reply::Fetched(fetched.map(|fetched| RoutedFetch {
                    events: fetched.events.into_iter().map(|event| routing.route(event)).collect(),
                    gone: fetched.gone,
                    taken: fetched.taken,
                })))
            }),
            Effect::Publish(batch, events) => {
                let publisher = self.publisher.clone();
                let (meter, clock) = (self.meter.clone(), self.clock.clone());
                let answered = Arc::new(Mutex::new(Vec::new()));
                let early = self.early.clone();
                let (answered_early, early_clock) = (answered.clone(), clock.clone());
                let early = Arc::new(EarlyOutcomes::new(move |outcomes: Vec<(usize, Outcome)>| {
                    let at = early_clock.now().wall;
                    let answers = outcomes.iter().map(|(index, _)| (*index, at));
                    answered_early.lock().unwrap_or_else(PoisonError::into_inner).extend(answers);
                    // The receiver ends only with the driver, which then needs no outcomes.
                    _ = early.send((term, Reply::PublishedEarly(batch, outcomes)));
                }));
                Box::pin(async move {
                    let events = Arc::new(events);
                    let begun = clock.now().elapsed;
                    // In a separate task, so that a panic of the sink does not end the relay.
                    let mut task = JoinSet::new();
                    task.spawn(publisher.clone().publish(events.clone(), early.clone()));
                    let outcomes = match task.join_next().await {
                        Some(Ok(outcomes)) => outcomes,
                        // Some messages have their outcome. The brain treats the missing ones as ambiguous.
                        _ if early.has_reported() => Vec::new(),
                        _ => publisher.publish_apart(&events).await,
                    };
                    let now = clock.now();
                    let answered =
                        std::mem::take(&mut *answered.lock().unwrap_or_else(PoisonError::into_inner));
                    let batch_answer = BatchAnswer { outcomes: &outcomes, at: now.wall, early: &answered };
                    meter.published(&events, &batch_answer, now.elapsed.saturating_sub(begun));
                    done(Reply::Published(batch, outcomes))
                })
            }
            Effect::Settle(settlement) => Box::pin(async move {
                done(Reply::Settled(health.watch(Operation::Settle, store.settle(settlement)).await))
            }),
            // Refused if another relay has become the owner: then the new owner must detect the change itself.
            Effect::Halt { epoch, reason } => Box::pin(async move {
                if let Ok(Settled::Fenced) =
                    health.watch(Operation::Halt, store.halt(&subscription, epoch, &reason)).await
                {
                    tracing::error!(
                        subscription,
                        reason,
                        "the history of the database changed and another relay has taken over; it may be \
                         unaware of the change: check for missing events, then run `postrider accept-history`"
                    );
                }
                // The brain does not wait for this reply: the term that asked for it is over.
                done(Reply::Released)
            }),
            Effect::Pause { epoch, reason } => Box::pin(async move {
                _ = health.watch(Operation::Pause, store.pause_as_owner(&subscription, epoch, &reason)).await;
                // The brain does not wait for this reply: every renewal reads the pause again.
                done(Reply::Paused)
            }),
            Effect::Report(_) | Effect::Stop => return None,
        })
    }

    /// Tries to become the owner of the subscription. If the lease is granted, fences the previous owner at the
    /// destination, and returns the claimer that reads from where the previous owner stopped.
    async fn acquire(&self) -> Result<(Acquisition, Option<Box<dyn Claimer>>), Code> {
        // Another relay may have held the lease in between, and its deliveries are unknown here.
        self.publisher.copies.clear();
        // Before the lease: a relay that cannot encode must not keep it from one that can.
        let prepared = prepare(&*self.publisher.encoder, self.policy.lease).await;
        self.health.record(Operation::Prepare, prepared)?;
        let begun = self.clock.now().elapsed;
        let acquired = self.store.acquire(self.lease()).await;
        let took = self.clock.now().elapsed.saturating_sub(begun);
        self.meter.called(Operation::Acquire, took, acquired.as_ref().err().map(Error::code));
        let mut loaded = match acquired {
            Ok(Acquired::Granted(loaded)) => loaded,
            not_granted => {
                let standby = self.health.record(Operation::Acquire, not_granted)?;
                // An earlier error of a renewal no longer concerns this relay.
                _ = self.health.record(Operation::Renew, Ok(()));
                return Ok((self.routing.acquisition(standby), None));
            }
        };
        // The loaded state is final: the previous owner can no longer settle. After this call it can no longer publish
        // either, if the sink supports fencing.
        let taken_over = take_over(&*self.publisher.sink, self.policy.lease).await;
        if taken_over.is_err() {
            // The lease was granted: an earlier error of the database is over.
            _ = self.health.record(Operation::Acquire, Ok(()));
        }
        self.health.record(Operation::TakeOver, taken_over)?;
        let claimer = self.store.claimer_of(&self.subscription, &loaded);
        let rekeyed = self.routing.rekey(&*self.store, &mut loaded, &self.policy).await;
        self.health.record(Operation::Acquire, rekeyed)?;
        Ok((self.routing.acquisition(Acquired::Granted(loaded)), Some(claimer)))
    }

    fn lease(&self) -> LeaseRequest {
        LeaseRequest {
            subscription: self.subscription.clone(),
            holder: self.holder.clone(),
            duration: self.policy.lease,
        }
    }
}

/// Has the encoder load what it needs. What it has loaded when its time is over counts for the next call.
pub(super) async fn prepare(encoder: &dyn Encoder, within: Duration) -> Result<(), Error> {
    let late = || {
        Error::new(Code::SchemaUnavailable, format!("the encoder did not load its schemas within {within:?}"))
    };
    tokio::time::timeout(within, encoder.prepare()).await.unwrap_or_else(|_| Err(late()))
}

/// Has the sink fence the last owner, with a timeout that leaves enough time for the first renewal.
async fn take_over(sink: &dyn Sink, lease: Duration) -> Result<(), Error> {
    let within = lease / 3;
    let late =
        || Error::new(Code::SinkFailed, format!("the takeover of the sink did not finish within {within:?}"));
    tokio::time::timeout(within, sink.take_over(lease)).await.unwrap_or_else(|_| Err(late()))
}

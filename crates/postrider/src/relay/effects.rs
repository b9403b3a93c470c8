//! Performs the brain's effects: each effect becomes one call, and each call returns one reply.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Policy;
use super::brain::{Effect, Reply, RoutedFetch, Term};
use super::health_log::{HealthLog, Operation};
use super::publish::Publisher;
use super::routing::Routing;
use crate::sink::{EarlyOutcomes, Sink};
use crate::store::{Acquired, Claimer, LeaseRequest, Settled, Store};
use crate::{BoxFuture, Code, Error};

/// What the effects of one subscription need.
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
                let (lease, policy, sink) = (self.lease(), self.policy.clone(), self.publisher.sink.clone());
                // Another relay may have held the lease in between, and its deliveries are unknown here.
                self.publisher.copies.clear();
                Box::pin(async move {
                    let mut acquired = store.acquire(lease).await;
                    let mut claimer = None;
                    if let Ok(Acquired::Granted(loaded)) = &mut acquired {
                        // The loaded state is final: the last owner can no longer settle. After this call it can no
                        // longer publish either, if the sink supports fencing. The timeout leaves time for a renewal.
                        let taken_over = take_over(&*sink, policy.lease).await;
                        if taken_over.is_err() {
                            // The lease was granted: an earlier error of the database is over.
                            _ = health.record(Operation::Acquire, Ok(()));
                        }
                        if let Err(code) = health.record(Operation::TakeOver, taken_over) {
                            return done(Reply::Acquired(Err(code)));
                        }
                        claimer = Some(store.claimer_of(&subscription, loaded));
                        if let Err(error) = routing.rekey(&*store, loaded, &policy).await {
                            acquired = Err(error);
                        }
                    }
                    let stands_by = matches!(acquired, Ok(Acquired::Held { .. } | Acquired::Halted(_)));
                    let acquired =
                        health.record(Operation::Acquire, acquired).map(|a| routing.acquisition(a));
                    if stands_by {
                        // An earlier error of a renewal no longer concerns this relay.
                        _ = health.record(Operation::Renew, Ok(()));
                    }
                    CallResult { term, reply: Reply::Acquired(acquired), claimer }
                })
            }
            Effect::Renew(epoch) => {
                let lease = self.lease();
                Box::pin(async move {
                    done(Reply::Renewed(health.record(Operation::Renew, store.renew(lease, epoch).await)))
                })
            }
            Effect::Release { epoch, clean } => Box::pin(async move {
                _ = health.record(Operation::Release, store.release(&subscription, epoch, clean).await);
                done(Reply::Released)
            }),
            Effect::Claim(budget) => {
                let mut claimer = claimer.take()?;
                Box::pin(async move {
                    let claimed = health.record(Operation::Claim, claimer.claim(budget).await);
                    let reply = Reply::Claimed(claimed.map(|claimed| routing.claim(claimed)));
                    CallResult { term, reply, claimer: Some(claimer) }
                })
            }
            Effect::Fetch(positions, bytes_max) => Box::pin(async move {
                let fetched = health.record(Operation::Fetch, store.fetch(positions, bytes_max).await);
                done(Reply::Fetched(fetched.map(|fetched| RoutedFetch {
                    events: fetched.events.into_iter().map(|event| routing.route(event)).collect(),
                    gone: fetched.gone,
                    taken: fetched.taken,
                })))
            }),
            Effect::Publish(batch, events) => {
                let publisher = self.publisher.clone();
                let early = self.early.clone();
                let early = Arc::new(EarlyOutcomes::new(move |outcomes| {
                    // The receiver ends only with the driver, which then needs no outcomes.
                    _ = early.send((term, Reply::PublishedEarly(batch, outcomes)));
                }));
                Box::pin(async move {
                    let events = Arc::new(events);
                    // In a separate task, so that a panic of the sink does not end the relay.
                    let mut task = JoinSet::new();
                    task.spawn(publisher.clone().publish(events.clone(), early.clone()));
                    let outcomes = match task.join_next().await {
                        Some(Ok(outcomes)) => outcomes,
                        // Some messages have their outcome. The brain treats the missing ones as ambiguous.
                        _ if early.has_reported() => Vec::new(),
                        _ => publisher.publish_apart(&events).await,
                    };
                    done(Reply::Published(batch, outcomes))
                })
            }
            Effect::Settle(settlement) => Box::pin(async move {
                done(Reply::Settled(health.record(Operation::Settle, store.settle(settlement).await)))
            }),
            // Refused if another relay has become the owner: then the new owner must detect the change itself.
            Effect::Halt { epoch, reason } => Box::pin(async move {
                if let Ok(Settled::Fenced) =
                    health.record(Operation::Halt, store.halt(&subscription, epoch, &reason).await)
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
                _ = health
                    .record(Operation::Pause, store.pause_as_owner(&subscription, epoch, &reason).await);
                // The brain does not wait for this reply: every renewal reads the pause again.
                done(Reply::Paused)
            }),
            Effect::Report(_) | Effect::Stop => return None,
        })
    }

    fn lease(&self) -> LeaseRequest {
        LeaseRequest {
            subscription: self.subscription.clone(),
            holder: self.holder.clone(),
            duration: self.policy.lease,
        }
    }
}

/// Has the sink fence the last owner, with a timeout that leaves enough time for the first renewal.
async fn take_over(sink: &dyn Sink, lease: Duration) -> Result<(), Error> {
    let within = lease / 3;
    let late =
        || Error::new(Code::SinkFailed, format!("the takeover of the sink did not finish within {within:?}"));
    tokio::time::timeout(within, sink.take_over(lease)).await.unwrap_or_else(|_| Err(late()))
}

//! Doing what the brain says: each effect becomes one call, each call one reply.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::brain::{Acquisition, Claim, Effect, Fetch, KeyId, Numbers, Reply, Route, Routed, Session};
use super::publish::Publisher;
use super::{Order, Policy};
use crate::route::{self, Router};
use crate::store::{Acquired, Claimed, Claimer, LeaseRequest, Store};
use crate::{BoxFuture, Code, Error, Position, StoredEvent};

/// What is needed to do what one subscription's brain says.
pub(super) struct Performer {
    pub(super) subscription: String,
    pub(super) holder: String,
    pub(super) store: Arc<dyn Store>,
    pub(super) routing: Arc<Routing>,
    pub(super) publisher: Publisher,
    pub(super) policy: Policy,
}

/// A reply on its way back, and the reader of the outbox with it if the call had it.
pub(super) struct Done {
    pub(super) session: Session,
    pub(super) reply: Reply,
    pub(super) claimer: Option<Box<dyn Claimer>>,
}

impl Performer {
    /// The call for an effect. `Report` and `Stop` need none.
    pub(super) fn perform(
        &self,
        session: Session,
        effect: Effect,
        claimer: &mut Option<Box<dyn Claimer>>,
    ) -> Option<BoxFuture<'static, Done>> {
        let (store, routing, subscription) =
            (self.store.clone(), self.routing.clone(), self.subscription.clone());
        let done = move |reply| Done { session, reply, claimer: None };
        Some(match effect {
            Effect::Acquire => {
                let lease = self.lease();
                Box::pin(async move {
                    let acquired = logged(&subscription, store.acquire(lease).await);
                    let claimer = match &acquired {
                        Ok(Acquired::Granted(loaded)) => Some(store.claimer(&loaded.progress)),
                        _ => None,
                    };
                    let acquired = acquired.map(|a| routing.acquisition(a));
                    Done { session, reply: Reply::Acquired(acquired), claimer }
                })
            }
            Effect::Renew(epoch) => {
                let lease = self.lease();
                Box::pin(async move {
                    done(Reply::Renewed(logged(&subscription, store.renew(lease, epoch).await)))
                })
            }
            Effect::Release { epoch, clean } => Box::pin(async move {
                _ = logged(&subscription, store.release(&subscription, epoch, clean).await);
                done(Reply::Released)
            }),
            Effect::Claim(budget) => {
                let mut claimer = claimer.take()?;
                Box::pin(async move {
                    let claimed = logged(&subscription, claimer.claim(budget).await);
                    let reply = Reply::Claimed(claimed.map(|claimed| routing.claim(claimed)));
                    Done { session, reply, claimer: Some(claimer) }
                })
            }
            Effect::Fetch(positions, bytes_max) => Box::pin(async move {
                let fetched = logged(&subscription, store.fetch(positions, bytes_max).await);
                done(Reply::Fetched(fetched.map(|fetched| Fetch {
                    events: fetched.events.into_iter().map(|event| routing.route(event)).collect(),
                    gone: fetched.gone,
                })))
            }),
            Effect::Publish(batch, events) => {
                let publisher = self.publisher.clone();
                Box::pin(async move {
                    let events = Arc::new(events);
                    // In a task of its own, so that a panic of the sink is an answer and not the relay's end.
                    let mut task = JoinSet::new();
                    task.spawn(publisher.clone().publish(events.clone()));
                    let outcomes = match task.join_next().await {
                        Some(Ok(outcomes)) => outcomes,
                        _ => publisher.publish_apart(&events).await,
                    };
                    done(Reply::Published(batch, outcomes))
                })
            }
            Effect::Settle(settlement) => Box::pin(async move {
                done(Reply::Settled(logged(&subscription, store.settle(settlement).await)))
            }),
            Effect::Halt(reason) => Box::pin(async move {
                _ = logged(&subscription, store.halt(&subscription, &reason).await);
                // Nobody waits for this; the session it came from is over.
                done(Reply::Released)
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

/// The brain needs only the code of an error; a person needs all of it.
fn logged<T>(subscription: &str, result: Result<T, Error>) -> Result<T, Code> {
    result.map_err(|error| {
        tracing::warn!(subscription, code = %error.code(), "{}", error.to_string().replace('\n', ";"));
        error.code()
    })
}

/// Gives events their keys' numbers and their destinations.
pub(super) struct Routing {
    pub(super) router: Router,
    pub(super) numbers: Numbers,
    pub(super) order: Order,
}

impl Routing {
    fn route(&self, stored: StoredEvent) -> Routed {
        let StoredEvent { position, event } = stored;
        let route = match self.router.route(&event) {
            route::Route::To(name) => Route::To { id: self.numbers.destination(&name), name },
            route::Route::Filtered => Route::Filtered,
            route::Route::Unrouted => Route::Unrouted,
        };
        Routed { position, key: self.key(event.ordering_key(), position), route, event }
    }

    fn key(&self, key: Option<&str>, position: Position) -> KeyId {
        self.numbers.key(key.filter(|_| self.order == Order::Key), position)
    }

    fn claim(&self, claimed: Claimed) -> Claim {
        match claimed {
            Claimed::Page(page) => Claim::Page {
                events: page.events.into_iter().map(|event| self.route(event)).collect(),
                dead: page.dead,
                more: page.more,
            },
            Claimed::HistoryChanged(reason) => Claim::HistoryChanged(reason),
        }
    }

    fn acquisition(&self, acquired: Acquired) -> Acquisition {
        Acquisition::from_store(acquired, |row| self.key(row.key.as_deref(), row.position))
    }
}

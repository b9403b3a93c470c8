//! What a relay serves, and when all of it that was there at the start is delivered.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider::ledger::ParkedState;
use postrider::relay::{Observer, OnDead};
use postrider::store::{Overview, SubscriptionOverview};
use postrider::{Code, Error, Position, Result};

use crate::assemble::Stores;
use crate::config::Settings;
use crate::config::settings::SubscriptionSettings;

/// How often progress is looked at: each look is a few reads.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The outboxes of a running relay, to look at.
pub(super) struct Drain<'a> {
    settings: &'a Settings,
    stores: &'a Stores,
}

/// The outboxes at one moment, by name.
pub(super) struct Look<'a> {
    settings: &'a Settings,
    outboxes: BTreeMap<String, Overview>,
}

impl<'a> Drain<'a> {
    pub(super) fn new(settings: &'a Settings, stores: &'a Stores) -> Self {
        Self { settings, stores }
    }

    pub(super) async fn look(&self) -> Result<Look<'a>> {
        let mut outboxes = BTreeMap::new();
        for (name, store) in self.stores.iter() {
            outboxes.insert(name.to_owned(), store.overview(0).await?);
        }
        Ok(Look { settings: self.settings, outboxes })
    }

    /// Waits until everything committed `at_start` is delivered or given up, by this relay or another.
    ///
    /// # Errors
    /// [`Code::Undelivered`] if something was given up meanwhile or waits for an operator.
    pub(super) async fn wait(&self, at_start: &Look<'_>, relay: &Observer) -> Result<()> {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        loop {
            looks.tick().await;
            let now = self.look().await?;
            if now.is_settled_by(relay) && now.has_delivered(at_start)? {
                return now.refuse_lost(at_start);
            }
        }
    }
}

impl Look<'_> {
    /// Logs what is served, from where on. Names and paths only: no secret.
    pub(super) fn tell(&self) {
        for (outbox, of, subscription) in self.served() {
            let sink = self.settings.sinks.get(&of.sink).map(|sink| sink.target.to_string());
            let (name, from) = (&subscription.name, subscription.floor.next().get());
            tracing::info!(outbox, subscription = name, sink, from, "serving");
        }
    }

    /// The subscriptions of the configuration, with the outbox of each.
    fn served(&self) -> impl Iterator<Item = (&str, &SubscriptionSettings, &SubscriptionOverview)> {
        let settings = &self.settings.subscriptions;
        self.outboxes.iter().flat_map(move |(outbox, overview)| {
            overview.subscriptions.iter().filter_map(move |subscription| {
                let of = settings.get(&subscription.name).filter(|of| of.outbox == *outbox)?;
                Some((outbox.as_str(), of, subscription))
            })
        })
    }

    /// Whether somebody has looked at what is parked: this relay, with nothing left in its hands, or another
    /// that leads. Before that, an event that today's rules would send may still count as unrouted.
    fn is_settled_by(&self, relay: &Observer) -> bool {
        let status = relay.status();
        self.served().all(|(_, _, subscription)| {
            let ours = status.iter().filter(|of| of.subscription == subscription.name);
            let mut leading = ours.map(|of| &of.brain).filter(|brain| brain.leading.is_some()).peekable();
            match leading.peek() {
                Some(_) => leading.all(|brain| brain.recalling == 0 && brain.events_in_memory == 0),
                None => {
                    subscription.lease.as_ref().is_some_and(|lease| lease.holder != relay.name())
                        || subscription.paused.is_some()
                        || subscription.halted.is_some()
                }
            }
        })
    }

    fn has_delivered(&self, at_start: &Self) -> Result<bool> {
        for (outbox, of, subscription) in self.served() {
            refuse_stopped(subscription)?;
            let target = at_start.outboxes.get(outbox).map_or(Position::ZERO, |overview| overview.last);
            let due = |first: Option<Position>| first.is_some_and(|first| first <= target);
            if due(subscription.backlog.first)
                || (due(subscription.parked.first) && moving(of, subscription) > 0)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn refuse_lost(&self, at_start: &Self) -> Result<()> {
        let given_up = |look: &Self| -> u64 {
            look.served()
                .map(|(_, of, subscription)| subscription.parked.total() - moving(of, subscription))
                .sum()
        };
        match given_up(self).saturating_sub(given_up(at_start)) {
            0 => Ok(()),
            1 => Err(Error::new(Code::Undelivered, "1 event could not be delivered")),
            lost => Err(Error::new(Code::Undelivered, format!("{lost} events could not be delivered"))),
        }
    }
}

/// Parked events that go on by themselves: neither final, nor unrouted, nor behind one that only an operator
/// can move.
fn moving(of: &SubscriptionSettings, subscription: &SubscriptionOverview) -> u64 {
    let parked = &subscription.parked;
    let behind_dead = if of.policy.on_dead == OnDead::Block { parked.behind_dead } else { 0 };
    let all: u64 =
        [ParkedState::Retry, ParkedState::Held, ParkedState::Behind].map(|s| parked.count(s)).iter().sum();
    all.saturating_sub(parked.behind_unrouted + behind_dead)
}

/// A subscription that an operator stopped delivers nothing, however long one waits.
fn refuse_stopped(subscription: &SubscriptionOverview) -> Result<()> {
    let (how, reason) = match (&subscription.halted, &subscription.paused) {
        (Some(reason), _) => ("halted", reason),
        (None, Some(reason)) => ("paused", reason),
        (None, None) => return Ok(()),
    };
    let what = format!("subscription {:?} is {how}: {reason}", subscription.name);
    Err(Error::new(Code::Undelivered, what))
}

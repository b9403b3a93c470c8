//! The progress of a relay: what it serves, and when all events that were committed at the start are delivered.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider::ledger::ParkedState;
use postrider::relay::{OnDead, RelayHandle, SubscriptionStatus};
use postrider::store::{Overview, SubscriptionOverview};
use postrider::{Code, Error, Position, Result};
use tokio::task::JoinSet;

use crate::assemble::{Stores, with_subscriptions};
use crate::config::Settings;
use crate::config::settings::SubscriptionSettings;
use crate::output::count;

/// How often the progress is read; each time costs a few queries.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long the log line about what is served waits for a database.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Reads the progress of a running relay.
pub(super) struct Drain<'a> {
    settings: &'a Settings,
    stores: &'a Stores,
}

/// The overviews of all outboxes at one time, by name.
pub(super) struct Overviews<'a> {
    settings: &'a Settings,
    outboxes: BTreeMap<String, Overview>,
}

impl<'a> Drain<'a> {
    pub(super) fn new(settings: &'a Settings, stores: &'a Stores) -> Self {
        Self { settings, stores }
    }

    /// Logs what the relay serves. With `until_drained`, waits until it is [drained](Self::wait); otherwise it never
    /// returns.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub(super) async fn run(&self, relay: &RelayHandle, until_drained: bool, fail_fast: bool) -> Result<()> {
        if !until_drained {
            self.read_available().await.log_served();
            return std::future::pending().await;
        }
        let at_start = loop {
            match self.read_overviews().await {
                Ok(at_start) if at_start.is_complete() => break at_start,
                Err(error) if fail_fast || !error.code().may_recover_by_itself() => return Err(error),
                // A database is down: its events are part of the drain.
                _ => tokio::time::sleep(POLL_INTERVAL).await,
            }
        };
        at_start.log_served();
        self.wait(&at_start, relay).await
    }

    /// The overviews of the databases that answer soon.
    async fn read_available(&self) -> Overviews<'a> {
        let mut reading = JoinSet::new();
        for (name, store) in self.stores.all() {
            reading.spawn(async move {
                let overview = tokio::time::timeout(ANSWER_MAX, store.overview(0)).await.ok()?.ok()?;
                Some((name, overview))
            });
        }
        let outboxes = reading.join_all().await.into_iter().flatten().collect();
        Overviews { settings: self.settings, outboxes }
    }

    async fn read_overviews(&self) -> Result<Overviews<'a>> {
        let mut outboxes = BTreeMap::new();
        for (name, store) in self.stores.all() {
            outboxes.insert(name, store.overview(0).await?);
        }
        Ok(Overviews { settings: self.settings, outboxes })
    }

    /// Waits until every event committed `at_start` is delivered or given up, by this relay or another. Does not wait
    /// for subscriptions that an operator stopped.
    ///
    /// # Errors
    /// [`Code::Undelivered`] if an event was given up in the meantime or waits for an operator.
    async fn wait(&self, at_start: &Overviews<'_>, relay: &RelayHandle) -> Result<()> {
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        loop {
            ticks.tick().await;
            let now = self.read_overviews().await?;
            refuse_unrecoverable_error(relay)?;
            if now.is_settled_by(relay) && now.has_delivered(at_start) {
                return now.refuse_lost(at_start).and_then(|()| now.refuse_stopped(at_start));
            }
        }
    }

    /// After the relay has stopped: a relay that just began to lead may find only then that the history has changed.
    ///
    /// # Errors
    /// [`Code::Undelivered`] if a subscription is halted, or the database's error.
    pub(super) async fn refuse_halted(&self) -> Result<()> {
        let now = self.read_overviews().await?;
        let mut halted = now.served().filter_map(|(_, _, of)| Some((of, of.halted.as_ref()?)));
        halted.next().map_or(Ok(()), |(of, reason)| Err(halted_error(&of.name, reason)))
    }

    /// One line about what this relay delivered and what is parked. `None` if the database does not answer.
    pub(super) async fn summary(&self, relay: &RelayHandle) -> Option<String> {
        let now = self.read_overviews().await.ok()?;
        let delivered: u64 = relay.status().iter().map(|of| of.state.acknowledged).sum();
        let parked = |state| now.served().map(|(_, _, of)| of.parked.count(state)).sum::<u64>();
        let states: Vec<_> = ParkedState::ALL
            .iter()
            .map(|state| (parked(*state), state.as_str()))
            .filter(|(number, _)| *number > 0)
            .collect();
        let total: u64 = states.iter().map(|(number, _)| number).sum();
        let mut line = format!("delivered {}, parked {total}", count(delivered, "event"));
        if total > 0 {
            let parts: Vec<_> = states.iter().map(|(number, state)| format!("{number} {state}")).collect();
            line = format!("{line} ({})", parts.join(", "));
        }
        Some(line)
    }
}

impl Overviews<'_> {
    /// Logs the served subscriptions and where they continue. Contains only names and paths, no secrets.
    fn log_served(&self) {
        for (outbox, of, subscription) in self.served() {
            let sink = self.settings.sinks.get(&of.sink).map(|sink| sink.target.to_string());
            let (name, from) = (&subscription.name, subscription.floor.next().get());
            tracing::info!(outbox, subscription = name, sink, from, "serving");
        }
    }

    /// Whether every subscription of the configuration exists.
    fn is_complete(&self) -> bool {
        let configured =
            |outbox: &str| self.settings.subscriptions.values().filter(|of| of.reads(outbox)).count();
        self.served().count()
            == with_subscriptions(self.settings).map(|(name, _)| configured(name)).sum::<usize>()
    }

    /// The subscriptions of the configuration, with the outbox of each.
    fn served(&self) -> impl Iterator<Item = (&str, &SubscriptionSettings, &SubscriptionOverview)> {
        let settings = &self.settings.subscriptions;
        self.outboxes.iter().flat_map(move |(outbox, overview)| {
            overview.subscriptions.iter().filter_map(move |subscription| {
                let of = settings.get(&subscription.name).filter(|of| of.reads(outbox))?;
                Some((outbox.as_str(), of, subscription))
            })
        })
    }

    /// Whether a relay has processed the parked events: this relay, with nothing left in memory, or another one that
    /// leads. Before that, an event that matches the current rules may still count as unrouted.
    fn is_settled_by(&self, relay: &RelayHandle) -> bool {
        let status = relay.status();
        self.running().all(|(outbox, _, subscription)| {
            let is_ours = |of: &&SubscriptionStatus| {
                of.subscription == subscription.name && of.outbox.as_deref().is_none_or(|of| of == outbox)
            };
            let ours: Vec<_> = status.iter().filter(is_ours).collect();
            let mut leading =
                ours.iter().map(|of| &of.state).filter(|state| state.leading.is_some()).peekable();
            match leading.peek() {
                Some(_) => leading
                    .all(|state| state.has_read && state.fetching_parked == 0 && state.events_in_memory == 0),
                None => subscription
                    .lease
                    .as_ref()
                    .is_some_and(|lease| ours.iter().all(|of| of.holder != lease.holder)),
            }
        })
    }

    /// The served subscriptions that are neither paused nor halted.
    fn running(&self) -> impl Iterator<Item = (&str, &SubscriptionSettings, &SubscriptionOverview)> {
        self.served().filter(|(_, _, of)| of.paused.is_none() && of.halted.is_none())
    }

    fn has_delivered(&self, at_start: &Self) -> bool {
        !self.running().any(|(outbox, of, subscription)| at_start.leaves(outbox, of, subscription))
    }

    /// Whether an event that was committed at this time is still undelivered according to a later overview.
    fn leaves(&self, outbox: &str, of: &SubscriptionSettings, later: &SubscriptionOverview) -> bool {
        let target = self.outboxes.get(outbox).map_or(Position::ZERO, |overview| overview.last);
        let due = |first: Option<Position>| first.is_some_and(|first| first <= target);
        due(later.backlog.first) || (due(later.parked.first) && retried(of, later) > 0)
    }

    /// A stopped subscription delivers nothing. A paused one without undelivered events is not an error; for a halted
    /// one it is unknown which events it would deliver.
    fn refuse_stopped(&self, at_start: &Self) -> Result<()> {
        for (outbox, of, subscription) in self.served() {
            let name = &subscription.name;
            match (&subscription.halted, &subscription.paused) {
                (Some(reason), _) => return Err(halted_error(name, reason)),
                (None, Some(reason)) if at_start.leaves(outbox, of, subscription) => {
                    let advice = format!(
                        "run `postrider resume {name}` when the reason is resolved, then drain again"
                    );
                    return Err(stopped_error(name, "paused", reason, advice));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn refuse_lost(&self, at_start: &Self) -> Result<()> {
        let given_up = |overviews: &Self| -> u64 {
            overviews
                .served()
                .map(|(_, of, subscription)| subscription.parked.total() - retried(of, subscription))
                .sum()
        };
        match given_up(self).saturating_sub(given_up(at_start)) {
            0 => Ok(()),
            lost => {
                let what = format!("{} could not be delivered", count(lost, "event"));
                Err(Error::new(Code::Undelivered, what))
            }
        }
    }
}

fn halted_error(name: &str, reason: &str) -> Error {
    let advice = format!("run `postrider status`, then `postrider accept-history {name} --from ...`");
    stopped_error(name, "halted", reason, advice)
}

fn stopped_error(name: &str, how: &str, reason: &str, advice: String) -> Error {
    Error::new(Code::Undelivered, format!("subscription {name:?} is {how}: {reason}"))
        .with_effect("its events stay in the outbox")
        .with_hint(advice)
}

/// Returns an error that only an operator can fix. A relay waits for that; a drain does not.
fn refuse_unrecoverable_error(relay: &RelayHandle) -> Result<()> {
    for status in relay.status() {
        let code = status.error_code.filter(|code| !code.may_recover_by_itself());
        if let (Some(code), Some(sentence)) = (code, status.error) {
            let on = status.outbox.map(|outbox| format!(" of {outbox}")).unwrap_or_default();
            let what = format!("subscription {:?}{on}: {sentence}", status.subscription);
            return Err(Error::new(code, what));
        }
    }
    Ok(())
}

/// The number of parked events that are retried automatically: not final, not unrouted, and not behind an event that
/// needs an operator.
fn retried(of: &SubscriptionSettings, subscription: &SubscriptionOverview) -> u64 {
    let parked = &subscription.parked;
    let behind_dead = if of.policy.on_dead == OnDead::Block { parked.behind_dead } else { 0 };
    let all: u64 =
        [ParkedState::Retry, ParkedState::Held, ParkedState::Behind].map(|s| parked.count(s)).iter().sum();
    all.saturating_sub(parked.behind_unrouted + behind_dead)
}

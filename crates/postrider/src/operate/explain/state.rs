//! What the facts mean.

use serde::Serialize;

use super::facts::{EventFacts, EventIdentity, Place, SubscriptionFacts};
use super::{Decisions, PASSED_OVER};
use crate::Timestamp;
use crate::ledger::NO_RULE;
use crate::operate::{AuditEntry, ParkedCount, ParkedItem};
use crate::store::{DestinationDown, ParkedState, RelayError, RelayOverview};

/// What a subscription does with an event, and what prevents it. `Display` is one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The subscription.
    pub subscription: String,
    /// The event, if a key was sought.
    #[serde(flatten)]
    pub event: Option<EventIdentity>,
    /// When this was true, on the database's clock.
    #[serde(skip)]
    pub now: Timestamp,
    /// Where the event is.
    #[serde(flatten)]
    pub state: EventState,
    /// What stops the subscription, if anything does and the event still waits.
    pub hindrance: Option<Hindrance>,
    /// The relay that leads the subscription, and when it last reported.
    pub relay: Option<LeaderReport>,
}

/// The relay that leads a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeaderReport {
    /// Its name.
    pub name: String,
    /// When it last reported about itself.
    pub seen_at: Option<Timestamp>,
}

/// Where an event is in a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventState {
    /// Delivered. When exactly is not recorded.
    Delivered {
        /// At the latest at this time.
        before: Option<Timestamp>,
    },
    /// It is not read yet.
    Backlog {
        /// Unfinished events before it.
        ahead: Option<ParkedCount>,
    },
    /// It waits for an earlier event with its key.
    Behind {
        /// The key.
        key: Option<String>,
        /// The event that it waits for: position or row id.
        head: Option<String>,
        /// Its id.
        head_id: Option<String>,
        /// Its state.
        head_state: Option<String>,
        /// Its error.
        head_error: Option<String>,
    },
    /// It failed and is tried again.
    Retry {
        /// Attempts so far.
        attempts: u32,
        /// When the next attempt is due; `None`: now.
        due_at: Option<Timestamp>,
        /// The last error.
        error: Option<String>,
        /// `retry` or `replay` if an operator asked for it.
        redelivery: Option<String>,
    },
    /// Its destination is down; no attempts are used up.
    Held {
        /// The destination.
        destination: Option<String>,
    },
    /// No routing rule matches it, or it has no schema.
    Unrouted {
        /// What is missing, if it is not a rule.
        error: Option<String>,
    },
    /// Given up.
    Dead {
        /// Attempts.
        attempts: u32,
        /// When.
        since: Option<Timestamp>,
        /// The last error.
        error: Option<String>,
    },
    /// Its `expires_at` passed before it could be delivered.
    Expired {
        /// When this was found.
        since: Option<Timestamp>,
    },
    /// An operator decided that this subscription never delivers it.
    Discarded {
        /// `discard` or `skip`.
        action: String,
        /// Who.
        by: String,
        /// When.
        at: Timestamp,
        /// Why.
        reason: Option<String>,
        /// When it was replayed before that. Then only its replay was given up, and it may have been delivered before.
        replayed_at: Option<Timestamp>,
    },
    /// The subscription began after it, or was moved past it.
    BelowStart {
        /// `subscribe`, `move` or `accept-history`.
        action: String,
        /// Where it began, for example `now`.
        start: String,
        /// When.
        at: Timestamp,
        /// Who.
        by: String,
    },
    /// Its row cannot be read as an event.
    Damaged {
        /// Why.
        error: String,
    },
    /// The row is marked as being published, by this relay or by another program.
    BeingPublished,
    /// The table schedules its next attempt for later.
    Scheduled {
        /// When.
        at: Option<Timestamp>,
        /// Failed attempts so far.
        attempts: u32,
    },
    /// Another program gave the row up.
    GivenUpElsewhere {
        /// Failed attempts.
        attempts: u32,
    },
    /// Layout `eventlog`: it was not fanned out yet.
    NotFannedOut,
    /// Layout `eventlog`: this handler has no notification of it, and gets none.
    NotWanted,
}

/// What stops a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Hindrance {
    /// The history of the database changed, and an operator must decide.
    Halted {
        /// Why, and what to do.
        reason: String,
    },
    /// An operator or the program paused it.
    Paused {
        /// Why.
        reason: String,
        /// Who, if the audit trail says it.
        by: Option<String>,
        /// When.
        at: Option<Timestamp>,
    },
    /// No relay leads it.
    NoRelay {
        /// The last one, if it did not release its lease.
        last: Option<String>,
        /// When its lease ended.
        ended_at: Option<Timestamp>,
    },
    /// No relay leads it, and one that runs cannot: it reports an error, for example of a schema registry.
    CannotLead {
        /// The relay.
        relay: String,
        /// Since when.
        since: Timestamp,
        /// The error.
        error: String,
    },
    /// A destination is down.
    DestinationDown {
        /// Its name.
        destination: String,
        /// Since when.
        since: Timestamp,
        /// When it is probed next.
        next_probe_at: Timestamp,
        /// The last error.
        error: String,
    },
}

/// Decides what the facts about one subscription mean.
pub(super) fn explain(facts: &EventFacts, of: &SubscriptionFacts, decisions: Decisions) -> Explanation {
    let Decisions { about_event, earlier_replay, pause } = decisions;
    let damaged = of.damaged.as_ref().or(facts.damaged.as_ref());
    let state = match (&of.place, damaged) {
        (Place::Parked(item), Some(error)) if item.state == ParkedState::Dead.as_str() => {
            EventState::Damaged { error: error.clone() }
        }
        (Place::Backlog { .. }, Some(error)) => EventState::Damaged { error: error.clone() },
        (place, _) => state(place, of.head.as_ref(), about_event, earlier_replay),
    };
    let leader = leader(facts.now, of);
    // If the history changed, another event may have had its position when that was done.
    let is_in_doubt = of.halted.is_some() && matches!(state, EventState::Delivered { .. });
    let concerns = waits(&state) || is_in_doubt;
    let hindrance = if concerns { hindrance(facts.now, of, &state, pause) } else { None };
    Explanation {
        subscription: of.name.clone(),
        event: of.event.clone(),
        now: facts.now,
        relay: leader.filter(|_| waits(&state)),
        state,
        hindrance,
    }
}

fn state(
    place: &Place,
    head: Option<&ParkedItem>,
    about_event: Option<AuditEntry>,
    earlier_replay: Option<AuditEntry>,
) -> EventState {
    match place {
        Place::Done { before } => match about_event {
            Some(entry) if PASSED_OVER.contains(&entry.action.as_str()) => passed_over(entry, earlier_replay),
            _ => EventState::Delivered { before: *before },
        },
        Place::Parked(item) => parked(item, head),
        Place::Backlog { ahead } => match head {
            Some(head) => behind(head.key.clone(), Some(head)),
            None => EventState::Backlog { ahead: *ahead },
        },
        Place::Marked => EventState::BeingPublished,
        Place::Scheduled { at, attempts } => EventState::Scheduled { at: *at, attempts: *attempts },
        Place::GivenUp { attempts } => EventState::GivenUpElsewhere { attempts: *attempts },
        Place::Expired { at } => EventState::Expired { since: *at },
        Place::NotFannedOut => EventState::NotFannedOut,
        Place::NotWanted => EventState::NotWanted,
    }
}

fn passed_over(entry: AuditEntry, earlier_replay: Option<AuditEntry>) -> EventState {
    let AuditEntry { action, made_by: by, made_at: at, selection, reason, .. } = entry;
    match action.as_str() {
        "discard" | "skip" => {
            let replayed_at = earlier_replay.map(|replay| replay.made_at);
            EventState::Discarded { action, by, at, reason, replayed_at }
        }
        _ => EventState::BelowStart { action, start: selection, at, by },
    }
}

fn parked(item: &ParkedItem, head: Option<&ParkedItem>) -> EventState {
    let (attempts, since, error) = (item.attempts, item.updated_at, item.last_error.clone());
    match ParkedState::from_word(&item.state) {
        Some(ParkedState::Behind) => behind(item.key.clone(), head),
        Some(ParkedState::Held) => EventState::Held { destination: item.destination.clone() },
        Some(ParkedState::Unrouted) => EventState::Unrouted { error: error.filter(|error| error != NO_RULE) },
        Some(ParkedState::Dead) => EventState::Dead { attempts, since, error },
        Some(ParkedState::Expired) => EventState::Expired { since },
        Some(ParkedState::Retry) => EventState::Retry {
            attempts,
            due_at: item.next_attempt_at,
            error,
            redelivery: item.redelivery.clone(),
        },
        None => EventState::Damaged { error: format!("its parked row has state {:?}", item.state) },
    }
}

fn behind(key: Option<String>, head: Option<&ParkedItem>) -> EventState {
    EventState::Behind {
        key,
        head: head.map(|head| head.row.clone()),
        head_id: head.and_then(|head| head.id.clone()),
        head_state: head.map(|head| head.state.clone()),
        head_error: head.and_then(|head| head.last_error.clone()),
    }
}

/// Whether a relay will do something with the event.
fn waits(state: &EventState) -> bool {
    use EventState::{
        Backlog, Behind, BeingPublished, Damaged, Held, NotFannedOut, Retry, Scheduled, Unrouted,
    };
    matches!(
        state,
        Backlog { .. }
            | Behind { .. }
            | BeingPublished
            | Damaged { .. }
            | Held { .. }
            | NotFannedOut
            | Retry { .. }
            | Scheduled { .. }
            | Unrouted { .. }
    )
}

/// The relay that holds the lease now.
fn leader(now: Timestamp, of: &SubscriptionFacts) -> Option<LeaderReport> {
    let lease = of.lease.as_ref().filter(|lease| lease.expires_at > now)?;
    let report = of.relays.iter().find(|relay| relay.leading && relay.relay == lease.holder);
    Some(LeaderReport { name: lease.holder.clone(), seen_at: report.map(|report| report.seen_at) })
}

fn hindrance(
    now: Timestamp,
    of: &SubscriptionFacts,
    state: &EventState,
    pause: Option<AuditEntry>,
) -> Option<Hindrance> {
    if let Some(reason) = &of.halted {
        return Some(Hindrance::Halted { reason: reason.clone() });
    }
    if let Some(reason) = &of.paused {
        // A pause without an entry, or with another reason, is newer: the program itself paused.
        let entry = pause.filter(|entry| entry.reason.as_ref().is_none_or(|said| said == reason));
        let (by, at) = entry.map(|entry| (entry.made_by, entry.made_at)).unzip();
        return Some(Hindrance::Paused { reason: reason.clone(), by, at });
    }
    let Some(leader) = leader(now, of) else {
        if let Some(hindrance) = cannot_lead(now, of) {
            return Some(hindrance);
        }
        let (last, ended_at) =
            of.lease.as_ref().map(|lease| (lease.holder.clone(), lease.expires_at)).unzip();
        return Some(Hindrance::NoRelay { last, ended_at });
    };
    let down = of.relays.iter().filter(|relay| relay.relay == leader.name).flat_map(|relay| &relay.down);
    let wanted = match state {
        EventState::Held { destination } => destination.as_ref(),
        _ => None,
    };
    let concerns = |down: &&DestinationDown| wanted.is_none_or(|wanted| is_of(wanted, &down.destination));
    let is_stopped =
        matches!(state, EventState::Held { .. } | EventState::Backlog { .. } | EventState::Retry { .. });
    down.filter(|_| is_stopped).find(concerns).map(|down| Hindrance::DestinationDown {
        destination: down.destination.clone(),
        since: down.since,
        next_probe_at: down.next_probe_at,
        error: down.error.clone(),
    })
}

/// The error of a relay that runs and does not lead. One without an error leads in a moment.
fn cannot_lead(now: Timestamp, of: &SubscriptionFacts) -> Option<Hindrance> {
    let mut running = of.relays.iter().filter(|relay| relay.is_current(now));
    if running.clone().any(|relay| error_of(relay).is_none()) {
        return None;
    }
    let (relay, error) = running.find_map(|relay| Some((relay, error_of(relay)?)))?;
    let error = error.clone();
    Some(Hindrance::CannotLead { relay: relay.relay.clone(), since: error.since, error: error.message })
}

/// The error that lasts.
fn error_of(relay: &RelayOverview) -> Option<&RelayError> {
    relay.facts.last_error.as_ref().filter(|error| error.until.is_none())
}

/// Whether events with this destination wait for that one. What a relay judges may be wider: for a URL, its server.
fn is_of(destination: &str, down: &str) -> bool {
    destination.strip_prefix(down).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
}

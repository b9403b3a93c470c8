//! Why an event was not delivered, or that it was: one sentence per subscription.
//!
//! A store collects [`EventFacts`]; `explain` decides what they mean. It asks no database, so it decides the same on
//! all of them.

mod facts;
mod sentence;
mod state;
mod statement;

pub use facts::{Absent, EventFacts, EventIdentity, EventSelector, OpenWriter, Place, SubscriptionFacts};
pub use state::{EventState, Explanation, Hindrance, LeaderReport};
pub use statement::{SqlFlavor, without_values};

use std::sync::Arc;

use serde::Serialize;

use super::{AuditEntry, AuditSearch, Operator};
use crate::{Event, Result, Timestamp};

/// Actions of operators after which a subscription is past an event that it did not deliver.
const PASSED_OVER: &[&str] = &["discard", "skip", "subscribe", "move", "accept-history"];

/// Those of them that concern a parked event.
const GIVEN_UP: &[&str] = &["discard", "skip"];

/// Actions after which it was delivered again, or is about to be.
const DELIVERED_AGAIN: &[&str] = &["replay", "retry"];

/// What is known about an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explained {
    /// When this was true, on the database's clock.
    pub now: Timestamp,
    /// The event, if it exists.
    #[serde(flatten)]
    pub event: Option<EventIdentity>,
    /// Why there is no such event, if there is none.
    #[serde(flatten)]
    pub absent: Option<Absent>,
    /// One per subscription that it concerns.
    pub subscriptions: Vec<Explanation>,
}

/// The newest commands of operators that concern the event, by subscription.
pub(super) struct Decisions {
    /// The newest command that concerns the event.
    pub(super) about_event: Option<AuditEntry>,
    /// An earlier replay of the event: it was finished before the newest command.
    pub(super) earlier_replay: Option<AuditEntry>,
    /// The newest pause.
    pub(super) pause: Option<AuditEntry>,
}

impl Operator {
    /// Why an event was not delivered, or that it was. Needs no lease and writes nothing. It does not read the whole
    /// outbox: an event is found by its position, or by the time in its id.
    ///
    /// # Errors
    /// The database's error.
    pub async fn explain(&self, sought: EventSelector) -> Result<Explained> {
        Ok(self.show(sought).await?.0)
    }

    /// The same, and the event with all its fields if one was sought and can be read.
    ///
    /// # Errors
    /// The database's error.
    pub async fn show(&self, sought: EventSelector) -> Result<(Explained, Option<Arc<Event>>)> {
        let facts = self.store().event_facts(sought).await?;
        let mut subscriptions = Vec::new();
        for of in &facts.subscriptions {
            let decisions = self.decisions(&facts, of).await?;
            subscriptions.push(state::explain(&facts, of, decisions));
        }
        let explained = Explained { now: facts.now, event: facts.event, absent: facts.absent, subscriptions };
        Ok((explained, facts.content))
    }

    /// The commands of operators that the explanation needs. The audit trail is read only if it can matter.
    async fn decisions(&self, facts: &EventFacts, of: &SubscriptionFacts) -> Result<Decisions> {
        let event = of.event.as_ref().or(facts.event.as_ref());
        let about_event = match (&of.place, event) {
            (Place::Done { .. }, Some(event)) => {
                let actions = PASSED_OVER.iter().chain(DELIVERED_AGAIN);
                self.newest(&of.name, vec![event.row.clone()], actions).await?
            }
            _ => None,
        };
        let earlier_replay = match (&about_event, event) {
            (Some(entry), Some(event)) if GIVEN_UP.contains(&entry.action.as_str()) => {
                self.newest(&of.name, vec![event.row.clone()], &["replay"]).await?
            }
            _ => None,
        };
        let pause = match &of.paused {
            Some(_) => self.newest(&of.name, Vec::new(), &["pause"]).await?,
            None => None,
        };
        Ok(Decisions { about_event, earlier_replay, pause })
    }

    /// The newest command of a subscription with one of these actions.
    async fn newest<'a>(
        &self,
        subscription: &str,
        rows: Vec<String>,
        actions: impl IntoIterator<Item = &'a &'static str>,
    ) -> Result<Option<AuditEntry>> {
        let search = AuditSearch::default()
            .subscription(Some(subscription.to_owned()))
            .rows(rows)
            .actions(actions.into_iter().map(|action| (*action).to_owned()).collect())
            .found_max(1);
        Ok(self.store().find_audit(search).await?.into_iter().next())
    }
}

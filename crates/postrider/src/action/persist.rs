//! How the events of an action are written.

use super::Database;
use crate::event::ActionContext;
use crate::layout::EventField;
use crate::write::ActionRecord;
use crate::{BoxFuture, Event, Limits, Outbox, Result};

/// What an action did, besides its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Performed {
    /// Its id, name, parameters and times.
    pub action: ActionContext,
    /// The service it ran in.
    pub namespace: String,
    /// On whose behalf it ran.
    pub principal: Option<String>,
    /// Its events in the order in which they were staged, with action and namespace.
    pub events: Vec<Event>,
}

/// Writes the events of an action: after its rows, before the commit, in the same transaction. [`Outbox`] is the
/// implementation for every layout.
pub trait EventPersister<D: Database>: Send + Sync + 'static {
    /// The number of events that one action may have. A plan with more is refused before any SQL.
    fn events_max(&self) -> usize {
        Limits::default().events_per_call_max
    }

    /// Writes all events, or the record of an action without events. The executor commits, or rolls back after an error.
    ///
    /// # Errors
    /// Any error ends this try; after [`Code::StoreBusy`](crate::Code::StoreBusy) the action may run again.
    fn persist<'a>(
        &'a self,
        tx: &'a mut D::Transaction,
        performed: &'a Performed,
    ) -> BoxFuture<'a, Result<()>>;
}

impl<D: Database> EventPersister<D> for Outbox {
    fn events_max(&self) -> usize {
        self.events_per_call_max()
    }

    /// Layouts with columns for the action have it on every event row. The others, and actions without events, get a
    /// record: see [`Outbox::record_action`].
    fn persist<'a>(
        &'a self,
        tx: &'a mut D::Transaction,
        performed: &'a Performed,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let has_action = self.has_column(EventField::Action);
            let events: Vec<Event> = performed.events.iter().map(|event| fitting(self, event)).collect();
            let written = match events.is_empty() {
                true => Vec::new(),
                false => D::write_events(tx, self, events).await?,
            };
            if has_action && !written.is_empty() {
                return Ok(());
            }
            let mut record = ActionRecord::new(performed.action.clone(), performed.namespace.clone());
            record.principal.clone_from(&performed.principal);
            record.event_ids = written.iter().map(|event| event.id).collect();
            D::record_action(tx, self, record).await
        })
    }
}

/// The event without the fields that only the record of the action can hold in this layout.
fn fitting(outbox: &Outbox, event: &Event) -> Event {
    let mut event = event.clone();
    if !outbox.has_column(EventField::Action) {
        event.action = None;
    }
    if !outbox.has_column(EventField::Namespace) {
        event.namespace = None;
    }
    event
}

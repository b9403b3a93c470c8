//! `postrider dead show`

use clap::Args;
use postrider::operate::{AuditEntry, AuditSearch, Operator, ParkedFilter, ParkedItem};
use postrider::store::ParkedState;
use postrider::{Code, Error};
use serde::Serialize;

use crate::commands::outbox_arg::OutboxArg;
use crate::context::Context;
use crate::failure::Failure;
use crate::operator;
use crate::output::{Align, Table, View};

/// How many commands about the event are shown.
const HISTORY_MAX: usize = 100;

/// Show one dead event: its error in full, and what operators did with it
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider dead show 0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c77
  postrider dead show 4711 --outbox shop --json")]
pub(super) struct Show {
    /// Id of the event, or its position or row id
    event: String,
    #[command(flatten)]
    outbox: OutboxArg,
}

impl Show {
    pub(super) fn run(&self, context: &Context, states: &[ParkedState]) -> Result<(), Failure> {
        let settings = context.settings()?;
        let (_, outbox) = self.outbox.one(&settings)?;
        let shown = operator::run(outbox, async |operator| self.find(operator, states).await)?;
        context.output.data(&shown)
    }

    async fn find(&self, operator: &Operator, states: &[ParkedState]) -> Result<Shown, Failure> {
        let subscriptions = operator.store().subscription_names().await?;
        let filter = ParkedFilter::default().states(states.to_vec()).events(vec![self.event.clone()]);
        let events = operator.list(&subscriptions, &filter, subscriptions.len().max(1)).await?;
        if events.is_empty() {
            let what = format!("no subscription has a dead event {:?}", self.event);
            return Err(Error::new(Code::EventUnknown, what)
                .with_effect("nothing was changed")
                .with_hint("`postrider dead list` shows all; `postrider parked list` those that still wait")
                .into());
        }
        let rows = events.iter().map(|event| event.row.clone()).collect();
        let search = AuditSearch::default().rows(rows).found_max(HISTORY_MAX);
        let mut history = operator.store().find_audit(search).await?;
        // Subscriptions share the positions of events.
        history.retain(|entry| {
            let is_about = |event: &ParkedItem| entry.subscription.as_deref() == Some(&event.subscription);
            events.iter().any(|event| is_about(event) && entry.concerns(&event.row))
        });
        Ok(Shown { events, history })
    }
}

#[derive(Serialize)]
struct Shown {
    events: Vec<ParkedItem>,
    history: Vec<AuditEntry>,
}

impl View for Shown {
    fn table(&self) -> Table {
        let mut table = Table::new([("", Align::Left), ("", Align::Left)], "");
        for event in &self.events {
            let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
            let time = |time: Option<postrider::Timestamp>| time.map_or("-".to_owned(), |at| at.to_string());
            for (name, value) in [
                ("subscription", event.subscription.clone()),
                ("event", event.row.clone()),
                ("id", text(&event.id)),
                ("type", text(&event.event_type)),
                ("key", text(&event.key)),
                ("destination", text(&event.destination)),
                ("state", event.state.clone()),
                ("attempts", event.attempts.to_string()),
                ("parked", time(event.parked_at)),
                ("since", time(event.updated_at)),
                ("error", text(&event.last_error)),
            ] {
                table.row([name.to_owned(), value]);
            }
        }
        for entry in &self.history {
            let reason = entry.reason.as_deref().unwrap_or("no reason given");
            table.row([
                "operator".to_owned(),
                format!("{} {} by {}: {reason}", entry.made_at, entry.action, entry.made_by),
            ]);
        }
        table
    }
}

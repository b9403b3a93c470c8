//! `postrider dead list` and `postrider parked list`

use clap::Args;
use postrider::Timestamp;
use postrider::operate::{Operator, ParkedItem};
use postrider::store::ParkedState;
use serde::Serialize;

use super::selection::Selection;
use crate::context::Context;
use crate::failure::Failure;
use crate::operator;
use crate::output::{Align, Table, View};

/// Maximum number of characters of an error in the table.
const ERROR_SHOWN: usize = 80;

/// The options of a command that lists events.
#[derive(Debug, Args)]
pub(in crate::commands) struct ListArgs {
    #[command(flatten)]
    selection: Selection,
    /// Maximum number of events
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// With --type: search all parked events of a subscription, not only the first 200,000
    #[arg(long)]
    deep: bool,
}

impl ListArgs {
    pub(in crate::commands) fn run(
        &self,
        context: &Context,
        states: &[ParkedState],
        empty: &'static str,
    ) -> Result<(), Failure> {
        let settings = context.settings()?;
        let (_, outbox) = self.selection.outbox.one(&settings)?;
        let (events, is_cut) = operator::run(outbox, async |operator| self.find(operator, states).await)?;
        if events.len() >= self.limit as usize {
            context.output.say(format!("shown are the first {}; see --limit and the filters", self.limit));
        }
        if is_cut {
            let what = "only the first 200,000 parked events of each subscription were searched";
            context.output.say(format!("{what}; --deep searches all of them"));
        }
        let empty = if is_cut { "no event was found" } else { empty };
        context.output.data(&Found { events, empty })
    }

    async fn find(
        &self,
        operator: &Operator,
        states: &[ParkedState],
    ) -> Result<(Vec<ParkedItem>, bool), Failure> {
        let subscriptions = self.selection.subscriptions(operator).await?;
        let (filter, limit) = (self.selection.filter(states), self.limit as usize);
        match self.deep {
            true => Ok((operator.list(&subscriptions, &filter, limit).await?, false)),
            false => Ok(operator.search(&subscriptions, &filter, limit).await?),
        }
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Found {
    events: Vec<ParkedItem>,
    #[serde(skip)]
    empty: &'static str,
}

impl View for Found {
    fn table(&self) -> Table {
        let columns = [
            ("subscription", Align::Left),
            ("event", Align::Right),
            ("id", Align::Left),
            ("type", Align::Left),
            ("key", Align::Left),
            ("state", Align::Left),
            ("attempts", Align::Right),
            ("next attempt", Align::Left),
            ("since", Align::Left),
            ("error", Align::Left),
        ];
        let mut table = Table::new(columns, self.empty);
        let time = |time: &Option<Timestamp>| time.map(|at| at.to_string()).unwrap_or_default();
        for event in &self.events {
            let error = event.last_error.clone().unwrap_or_default();
            let mut shown: String = error.chars().take(ERROR_SHOWN).collect();
            if shown.len() < error.len() {
                shown.push_str("...");
            }
            table.row([
                event.subscription.clone(),
                event.row.clone(),
                event.id.clone().unwrap_or_default(),
                event.event_type.clone().unwrap_or_else(|| "-".to_owned()),
                event.key.clone().unwrap_or_default(),
                event.state.clone(),
                event.attempts.to_string(),
                time(&event.next_attempt_at),
                time(&event.updated_at),
                shown,
            ]);
        }
        table
    }
}

//! `postrider subscriptions list`

use clap::Args;
use postrider::store::{Overview, SubscriptionOverview};
use serde::Serialize;

use crate::commands::outbox_arg::OutboxArg;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};
use crate::output::{Align, Table, View};

/// Show the subscriptions that exist in the database
///
/// `postrider status` shows more about each, and those that are only in the configuration.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider subscriptions list --json")]
pub(super) struct List {
    #[command(flatten)]
    outbox: OutboxArg,
}

impl List {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        let mut found = Vec::new();
        for (name, outbox) in self.outbox.all_or_named(&settings)? {
            let overview = block_on(Threads::One, async {
                Ok(outbox.database.admin().overview(PARKED_COUNTED_MAX).await?)
            })?;
            found.extend(overview.subscriptions.iter().map(|of| Row::new(name, of, &overview)));
        }
        context.output.data(&Found { subscriptions: found })
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Found {
    subscriptions: Vec<Row>,
}

/// Parked events are counted up to this number.
const PARKED_COUNTED_MAX: u64 = 10_000;

#[derive(Serialize)]
struct Row {
    outbox: String,
    subscription: String,
    /// Every position up to this one is done.
    done_up_to: i64,
    parked: u64,
    /// Counting stopped at a limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    parked_at_least: bool,
    relay: Option<String>,
    paused: Option<String>,
    halted: Option<String>,
}

impl Row {
    fn new(outbox: &str, of: &SubscriptionOverview, overview: &Overview) -> Self {
        Self {
            outbox: outbox.to_owned(),
            subscription: of.name.clone(),
            done_up_to: of.floor.get(),
            parked: of.parked.total(),
            parked_at_least: of.parked.more,
            relay: of.leader(overview.now).map(|lease| lease.holder.clone()),
            paused: of.paused.clone(),
            halted: of.halted.clone(),
        }
    }
}

impl View for Found {
    fn table(&self) -> Table {
        let columns = [
            ("outbox", Align::Left),
            ("subscription", Align::Left),
            ("done up to", Align::Right),
            ("parked", Align::Right),
            ("relay", Align::Left),
            ("state", Align::Left),
        ];
        let mut table = Table::new(columns, "no subscription exists");
        for row in &self.subscriptions {
            let state = match (&row.halted, &row.paused) {
                (Some(reason), _) => format!("halted: {reason}"),
                (None, Some(reason)) => format!("paused: {reason}"),
                (None, None) => String::new(),
            };
            table.row([
                row.outbox.clone(),
                row.subscription.clone(),
                row.done_up_to.to_string(),
                format!("{}{}", if row.parked_at_least { "at least " } else { "" }, row.parked),
                row.relay.clone().unwrap_or_default(),
                state,
            ]);
        }
        table
    }
}

//! `postrider handlers`

use clap::{Args, Subcommand};
use postrider::operate::HandlerEntry;
use serde::Serialize;

use super::outbox_arg::OutboxArg;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};
use crate::output::{Align, Table, View};

/// Show the registered handlers of layout eventlog
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider handlers list
  postrider handlers list --json")]
pub struct Handlers {
    #[command(subcommand)]
    command: HandlersCommand,
}

#[derive(Debug, Subcommand)]
enum HandlersCommand {
    List(List),
}

/// Show which handler gets which events
///
/// A handler is registered when its relay or its program starts, and stays registered: events are fanned out to it also while it
/// does not run. Other layouts register no handlers; there each subscription is one.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider handlers list --outbox shop")]
struct List {
    #[command(flatten)]
    outbox: OutboxArg,
}

impl Handlers {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let HandlersCommand::List(command) = &self.command;
        let settings = context.settings()?;
        let (_, outbox) = command.outbox.one(&settings)?;
        let handlers = block_on(Threads::One, async {
            let store = outbox.database.open().await?;
            let found = store.handlers().await;
            store.close().await;
            Ok(found?)
        })?;
        context.output.data(&Found { handlers })
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Found {
    handlers: Vec<HandlerEntry>,
}

impl View for Found {
    fn table(&self) -> Table {
        let columns = [
            ("handler", Align::Left),
            ("earlier names", Align::Left),
            ("type", Align::Left),
            ("since", Align::Left),
            ("registered", Align::Left),
            ("searched", Align::Left),
        ];
        let mut table = Table::new(columns, "no handler is registered");
        for entry in &self.handlers {
            let time = |time: Option<postrider::Timestamp>| time.map_or("-".to_owned(), |at| at.to_string());
            table.row([
                entry.handler.clone(),
                entry.aliases.join(", "),
                entry.event_type.clone(),
                time(entry.since),
                entry.registered_at.to_string(),
                time(entry.searched_at),
            ]);
        }
        table
    }
}

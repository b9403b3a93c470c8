//! `postrider events`

pub(super) mod list;
mod show;
mod tail;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider events list                          the newest events
  postrider events list --aggregate Order:42     what happened to one order
  postrider events show 4711 --payload           one event with all its fields
  postrider events tail --type order.placed      events as they are committed";

/// Show the events of an outbox
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Events {
    #[command(subcommand)]
    command: EventsCommand,
}

#[derive(Debug, Subcommand)]
enum EventsCommand {
    List(Box<list::List>),
    Show(show::Show),
    Tail(tail::Tail),
}

impl Events {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        match &self.command {
            EventsCommand::List(command) => command.run(context),
            EventsCommand::Show(command) => command.run(context),
            EventsCommand::Tail(command) => command.run(context),
        }
    }
}

//! `postrider events`

mod list;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider events list                          the newest events
  postrider events list --aggregate Order:42     what happened to one order";

/// Show the events of an outbox
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Events {
    #[command(subcommand)]
    command: EventsCommand,
}

#[derive(Debug, Subcommand)]
enum EventsCommand {
    List(list::List),
}

impl Events {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        match &self.command {
            EventsCommand::List(command) => command.run(context),
        }
    }
}

//! `postrider inbox`

mod clean;
mod list;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;

/// Show and maintain the inbox of consumers
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider inbox list --consumer mail           show what a consumer has processed
  postrider inbox clean                          delete what has expired, for a database without a relay")]
pub struct Inbox {
    #[command(subcommand)]
    command: InboxCommand,
}

#[derive(Debug, Subcommand)]
enum InboxCommand {
    List(list::List),
    Show(list::Show),
    Clean(clean::Clean),
}

impl Inbox {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        match &self.command {
            InboxCommand::List(command) => command.run(context),
            InboxCommand::Show(command) => command.run(context),
            InboxCommand::Clean(command) => command.run(context),
        }
    }
}

//! `postrider inbox`

mod clean;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;

/// Maintain the inbox of consumers
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider inbox clean                          delete what has expired, for a database without a relay")]
pub struct Inbox {
    #[command(subcommand)]
    command: InboxCommand,
}

#[derive(Debug, Subcommand)]
enum InboxCommand {
    Clean(clean::Clean),
}

impl Inbox {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        match &self.command {
            InboxCommand::Clean(command) => command.run(context),
        }
    }
}

//! `postrider migrate`

mod print;
mod status;
mod up;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider migrate up       bring every outbox up to date
  postrider migrate status   which version each one has
  postrider migrate print    the SQL, to run it yourself";

/// Create or update the tables of an outbox
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Migrate {
    #[command(subcommand)]
    command: MigrateCommand,
}

#[derive(Debug, Subcommand)]
enum MigrateCommand {
    Up(up::Up),
    Status(status::Status),
    Print(print::Print),
}

impl Migrate {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        match &self.command {
            MigrateCommand::Up(command) => command.run(context),
            MigrateCommand::Status(command) => command.run(context),
            MigrateCommand::Print(command) => command.run(context),
        }
    }
}

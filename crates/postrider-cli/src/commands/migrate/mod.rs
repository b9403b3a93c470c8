//! `postrider migrate`

mod print;
mod roles;
mod status;
mod up;
mod with_arg;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider migrate up       create or update the tables of every outbox
  postrider migrate status   schema version of each outbox
  postrider migrate print    print the SQL, to run it yourself
  postrider migrate roles    print SQL for least-privilege roles";

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
    Roles(roles::Roles),
}

impl Migrate {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        match &self.command {
            MigrateCommand::Up(command) => command.run(context),
            MigrateCommand::Status(command) => command.run(context),
            MigrateCommand::Print(command) => command.run(context),
            MigrateCommand::Roles(command) => command.run(context),
        }
    }
}

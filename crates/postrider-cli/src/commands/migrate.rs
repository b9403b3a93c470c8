//! `postrider migrate`

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
    /// Bring the tables up to date
    #[command(before_help = "Examples:\n  postrider migrate up")]
    Up,
    /// Show the version of the tables
    #[command(before_help = "Examples:\n  postrider migrate status --json")]
    Status,
    /// Print the SQL without running it
    #[command(before_help = "Examples:\n  postrider migrate print > outbox.sql")]
    Print,
}

impl Migrate {
    pub(super) fn run(&self, _context: &Context) -> Result<(), Failure> {
        match self.command {
            MigrateCommand::Up => Err(Failure::NotBuilt("migrate up")),
            MigrateCommand::Status => Err(Failure::NotBuilt("migrate status")),
            MigrateCommand::Print => Err(Failure::NotBuilt("migrate print")),
        }
    }
}

//! `postrider bench`

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider bench drain            how fast a backlog is carried away
  postrider bench latency --json   commit to acknowledgement, for programs";

/// Measure this machine and database
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Bench {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// How fast a backlog is carried away
    #[command(before_help = "Examples:\n  postrider bench drain")]
    Drain,
    /// How long from commit to acknowledgement
    #[command(before_help = "Examples:\n  postrider bench latency")]
    Latency,
    /// What writing events costs a transaction
    #[command(before_help = "Examples:\n  postrider bench write")]
    Write,
    /// Whether speed holds as the table grows
    #[command(before_help = "Examples:\n  postrider bench growth")]
    Growth,
}

impl Bench {
    pub(super) fn run(&self, _context: &Context) -> Result<(), Failure> {
        match self.command {
            BenchCommand::Drain => Err(Failure::NotBuilt("bench drain")),
            BenchCommand::Latency => Err(Failure::NotBuilt("bench latency")),
            BenchCommand::Write => Err(Failure::NotBuilt("bench write")),
            BenchCommand::Growth => Err(Failure::NotBuilt("bench growth")),
        }
    }
}

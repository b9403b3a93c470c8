//! `postrider demo`

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider demo                                watch it until Ctrl-C
  postrider demo --events 20000 --exit --json   run to the end and print the figures";

/// Show it at work: a small shop on a fresh SQLite file
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Demo {
    /// Events to write
    #[arg(long, value_name = "N")]
    pub events: Option<u64>,

    /// End when all events have arrived
    #[arg(long)]
    pub exit: bool,
}

impl Demo {
    pub(super) fn run(&self, _context: &Context) -> Result<(), Failure> {
        Err(Failure::NotBuilt("demo"))
    }
}

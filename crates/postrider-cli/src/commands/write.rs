//! `postrider write`

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider write --outbox shop < events.jsonl   one event per line";

/// Write events to an outbox
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Write {
    /// Outbox to write to; may be left out when there is only one
    #[arg(long, value_name = "NAME")]
    pub outbox: Option<String>,
}

impl Write {
    pub(super) fn run(&self, _context: &Context) -> Result<(), Failure> {
        Err(Failure::NotBuilt("write"))
    }
}

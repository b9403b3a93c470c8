//! `postrider relay`

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider relay                         every subscription of postrider.toml
  postrider relay --set relay.log=debug   the same, with more in the log";

/// Carry events to their destinations until told to stop
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Relay {}

impl Relay {
    pub(super) fn run(&self, _context: &Context) -> Result<(), Failure> {
        Err(Failure::NotBuilt("relay"))
    }
}

//! `postrider doctor`

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider doctor          a list of checks, each with its fix
  postrider doctor --json   for programs";

/// Check that everything is as it should be
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Doctor {}

impl Doctor {
    pub(super) fn run(&self, _context: &Context) -> Result<(), Failure> {
        Err(Failure::NotBuilt("doctor"))
    }
}

//! `postrider status`

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider status          a table
  postrider status --json   for programs";

/// Show how far each subscription is
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Status {}

impl Status {
    pub(super) fn run(&self, _context: &Context) -> Result<(), Failure> {
        Err(Failure::NotBuilt("status"))
    }
}

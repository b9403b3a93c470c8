//! `postrider status`

mod report;

use clap::Args;

use self::report::Report;
use super::chosen::Chosen;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};

const EXAMPLES: &str = "Examples:
  postrider status                 a table
  postrider status --outbox shop   of one outbox
  postrider status --json          for programs, with every figure";

/// Events that wait are counted up to here; beyond it a number says less than the time it takes.
const BACKLOG_MAX: u64 = 100_000;

/// Show how far each subscription is
///
/// Asks the database, not the relays: it works whether one runs or not, beside running ones, and where the database
/// can only be read. It changes nothing.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Status {
    #[command(flatten)]
    chosen: Chosen,
}

impl Status {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        let mut report = Report::default();
        for (name, outbox) in self.chosen.some(&settings)? {
            let overview =
                block_on(Threads::One, async { Ok(outbox.database.overview(BACKLOG_MAX).await?) })?;
            report.add(name, &overview, &settings);
        }
        context.output.data(&report)
    }
}

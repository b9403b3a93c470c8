//! `postrider doctor`

use std::time::Duration;

use clap::Args;

use crate::config::duration;
use crate::context::Context;
use crate::doctor::{Options, Severity, check};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};

const EXAMPLES: &str = "Examples:
  postrider doctor          run all checks; each finding names its fix
  postrider doctor --deep   also read the whole database
  postrider doctor --json   for programs";

/// Check configuration, databases, destinations and subscriptions
///
/// Changes nothing and can run while relays run. Exits with code 5 if a check failed, and with 0 if there are only warnings.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Doctor {
    /// Also read the whole database to find corruption; slow on large databases
    #[arg(long)]
    deep: bool,

    /// Report transactions that are open for longer than this, on PostgreSQL
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = age)]
    transaction_age: Duration,
}

fn age(text: &str) -> Result<Duration, &'static str> {
    duration::parse(text).ok_or("write it as 30s, 5m or 1h")
}

impl Doctor {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        let Self { deep, transaction_age: transaction_age_max } = *self;
        let options = Options { deep, transaction_age_max };
        let report = block_on(Threads::One, async { Ok(check(&settings, &options).await) })?;
        context.output.data(&report)?;
        match report.worst() {
            Severity::Fail => Err(Failure::Reported(Exit::Unhealthy)),
            Severity::Ok | Severity::Warn => Ok(()),
        }
    }
}

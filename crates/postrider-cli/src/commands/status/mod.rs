//! `postrider status`

mod grouped;
mod report;

use clap::{Args, ValueEnum};
use postrider::store::CountBy;

use self::grouped::GroupedCounts;
use self::report::Report;
use super::outbox_arg::OutboxArg;
use crate::config::Settings;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};

const EXAMPLES: &str = "Examples:
  postrider status                 a table
  postrider status --outbox shop   of one outbox
  postrider status --by type       waiting, failed and slow events by type
  postrider status --by hour       by time of writing
  postrider status --by producer   by writer
  postrider status --json          for programs, with every figure";

/// Undelivered events are counted up to this number, which limits the time of the query.
const BACKLOG_MAX: u64 = 100_000;

/// Maximum number of groups shown.
const GROUPS_MAX: usize = 1_000;

/// Show the progress of each subscription
///
/// Reads the database and does not contact relays: it works whether a relay runs or not, and with read-only
/// access. It changes nothing.
///
/// With `--by` it counts the events in the outbox instead, once per subscription. It reads all of them, which
/// takes a while on a large outbox. A figure that a layout does not have is shown as `-`, in JSON as null.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Status {
    #[command(flatten)]
    outbox: OutboxArg,

    /// Count events by this instead
    #[arg(long, value_enum)]
    by: Option<By>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// Their type
    Type,
    /// The hour they were written, in UTC; the newest first
    Hour,
    /// Their producer and type
    Producer,
}

impl From<By> for CountBy {
    fn from(by: By) -> Self {
        match by {
            By::Type => Self::Type,
            By::Hour => Self::Hour,
            By::Producer => Self::Producer,
        }
    }
}

/// A note about a prepared transaction that is not finished.
fn prepared_note(name: &str) -> String {
    format!(
        "the prepared transaction XA {name} is not finished: on MariaDB, positions that were rolled back \
         since then wait for it, and so does retention; run XA COMMIT or XA ROLLBACK"
    )
}

impl Status {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        if let Some(by) = self.by {
            return self.counts(context, &settings, by);
        }
        let mut report = Report::default();
        for (name, outbox) in self.outbox.all_or_named(&settings)? {
            let overview =
                block_on(Threads::One, async { Ok(outbox.database.admin().overview(BACKLOG_MAX).await?) })?;
            report.add(name, &overview, &settings);
            let prepared =
                block_on(Threads::One, async { Ok(outbox.database.admin().prepared_transactions().await) })?
                    // `doctor` reports a missing privilege.
                    .unwrap_or_default();
            if !context.output.is_json() {
                prepared.iter().for_each(|xa| context.output.say(format!("{name}: {}", prepared_note(xa))));
            }
            report.set_prepared(name, &prepared);
        }
        context.output.data(&report)
    }

    fn counts(&self, context: &Context, settings: &Settings, by: By) -> Result<(), Failure> {
        let mut counts = GroupedCounts::new(by);
        for (name, outbox) in self.outbox.all_or_named(settings)? {
            let event_counts = block_on(Threads::One, async {
                Ok(outbox.database.admin().count_events(by.into(), GROUPS_MAX).await?)
            })?;
            if event_counts.more {
                context.output.say(format!("{name}: only the first {GROUPS_MAX} groups are shown"));
            }
            counts.add(name, event_counts);
        }
        context.output.data(&counts)
    }
}

//! `postrider status`

mod grouped;
#[cfg(feature = "top")]
mod line;
mod relays;
mod report;

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::{Args, ValueEnum};
use crossterm::cursor::MoveTo;
use crossterm::terminal::{Clear, ClearType};
use postrider::operate::{AuditEntry, AuditQuery};
use postrider::store::CountBy;
use postrider::{Error, Timestamp};

use self::grouped::GroupedCounts;
#[cfg(feature = "top")]
pub(super) use self::line::Line;
#[cfg(feature = "top")]
pub(super) use self::report::COLUMNS;
pub(super) use self::report::Report;
use super::outbox_arg::OutboxArg;
use crate::config::settings::OutboxSettings;
use crate::config::{Settings, duration};
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};
use crate::output::age;

const EXAMPLES: &str = "Examples:
  postrider status                 a table
  postrider status --watch         again every two seconds, until Ctrl-C
  postrider status --outbox shop   of one outbox
  postrider status --by type       waiting, failed and slow events by type
  postrider status --by hour       by time of writing
  postrider status --by producer   by writer
  postrider status --json          for programs, with every figure";

/// Undelivered events are counted up to this number, which limits the time of the query.
const BACKLOG_MAX: u64 = 100_000;

/// How far back in the audit trail the pause of a subscription is searched.
const COMMANDS_SEARCHED_MAX: usize = 200;

/// Maximum number of groups shown.
const GROUPS_MAX: usize = 1_000;

/// Show the progress of each subscription and its relays
///
/// Reads the database and does not contact relays: it works whether a relay runs or not, and with read-only
/// access. It changes nothing. What only a relay knows (its rate, destinations that are down, its last error) is
/// what it wrote last, at most a few seconds ago; of a relay that died, for a day.
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

    /// Print it again and again, until interrupted; with --json, one line each time
    #[arg(long, conflicts_with = "by")]
    watch: bool,

    /// With --watch: the time between two, such as 500ms or 10s
    #[arg(long, value_name = "DURATION", default_value = "2s", requires = "watch", value_parser = parse_interval)]
    interval: Duration,
}

pub(super) fn parse_interval(text: &str) -> Result<Duration, &'static str> {
    let interval = duration::parse(text).filter(|interval| *interval >= Duration::from_millis(100));
    interval.ok_or("write it as 500ms, 30s, 5m or 1h, and at least 100ms")
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

/// Who paused a subscription; `None` if it is not in the audit trail, or this user may not read it.
fn paused_by(outbox: &OutboxSettings, subscription: &str) -> Option<AuditEntry> {
    let query =
        AuditQuery::default().subscription(Some(subscription.to_owned())).commands_max(COMMANDS_SEARCHED_MAX);
    let entries = block_on(Threads::One, async {
        let store = outbox.database.open().await?;
        let found = store.list_audit(query).await;
        store.close().await;
        Ok(found?)
    });
    entries.ok()?.into_iter().find(|entry| entry.action == "pause")
}

/// A note about a prepared transaction that is not finished.
fn prepared_note(name: &str) -> String {
    format!(
        "the prepared transaction XA {name} is not finished: on MariaDB, positions that were rolled back \
         since then wait for it, and so does retention; run XA COMMIT or XA ROLLBACK"
    )
}

/// The report, and the errors of databases that did not answer, unless there is only one.
///
/// # Errors
/// The error of the only database.
pub(super) fn read(
    outboxes: &[(&str, &OutboxSettings)],
    settings: &Settings,
) -> Result<(Report, Vec<Error>), Failure> {
    let mut report = Report::default();
    let mut failed = Vec::new();
    let is_only = outboxes.len() == 1;
    for &(name, outbox) in outboxes {
        let overview =
            block_on(Threads::One, async { Ok(outbox.database.admin().overview(BACKLOG_MAX).await?) });
        // One database that is down does not hide the others.
        let overview = match overview {
            Ok(overview) => overview,
            Err(Failure::Errors(errors)) if !is_only => {
                failed.extend(errors.into_iter().map(|error| error.within(name)));
                continue;
            }
            Err(failure) => return Err(failure),
        };
        report.add(name, &overview, settings);
        let prepared =
            block_on(Threads::One, async { Ok(outbox.database.admin().prepared_transactions().await) })?
                // `doctor` reports a missing privilege.
                .unwrap_or_default();
        report.set_prepared(name, &prepared);
        for subscription in report.paused(name) {
            if let Some(entry) = paused_by(outbox, &subscription) {
                report.set_paused_by(name, &subscription, &entry);
            }
        }
    }
    Ok((report, failed))
}

impl Status {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        if let Some(by) = self.by {
            return self.counts(context, &settings, by);
        }
        if self.watch {
            return self.watch(context, &settings);
        }
        let (report, failed) = self.read(context, &settings)?;
        context.output.data(&report)?;
        if failed.is_empty() { Ok(()) } else { Err(Failure::Errors(failed)) }
    }

    /// See [`read`]; also prints the prepared transactions.
    fn read(&self, context: &Context, settings: &Settings) -> Result<(Report, Vec<Error>), Failure> {
        let (report, failed) = read(&self.outbox.all_or_named(settings)?, settings)?;
        if !context.output.is_json() {
            for (outbox, xa) in report.prepared() {
                context.output.say(format!("{outbox}: {}", prepared_note(xa)));
            }
        }
        Ok((report, failed))
    }

    /// Prints the report again and again, until the program is interrupted. Errors are printed and do not end it.
    fn watch(&self, context: &Context, settings: &Settings) -> Result<(), Failure> {
        let output = &context.output;
        let on_terminal = !output.is_json() && io::stdout().is_terminal();
        loop {
            let read = self.read(context, settings);
            if on_terminal {
                let (all, home) = (Clear(ClearType::All), MoveTo(0, 0));
                output.text(format_args!("{all}{home}{}  every {}", Timestamp::now(), age(self.interval)))?;
            }
            let failed = match read {
                Ok((report, failed)) => {
                    if output.is_json() {
                        output.json_line(&report)?
                    } else {
                        output.data(&report)?
                    }
                    failed
                }
                Err(Failure::Errors(errors)) => errors,
                Err(failure) => return Err(failure),
            };
            if !failed.is_empty() {
                output.failure(&Failure::Errors(failed));
            }
            if !on_terminal && !output.is_json() {
                output.text("")?;
            }
            // Ctrl-C ends the process here, as in any command that only reads.
            block_on(Threads::One, async {
                tokio::time::sleep(self.interval).await;
                Ok(())
            })?;
        }
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

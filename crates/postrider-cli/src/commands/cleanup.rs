//! `postrider cleanup`

use clap::Args;
use postrider::Timestamp;
use postrider::operate::{Cleanup as Wanted, CleanupPlan, Operator, ParkedCount};
use postrider::store::RetentionScope;
use serde::Serialize;

use super::events::list::time;
use super::outbox_arg::OutboxArg;
use crate::config::settings::OutboxSettings;
use crate::context::Context;
use crate::failure::Failure;
use crate::operator;
use crate::output::{Align, Progress, Table, View};

/// Delete delivered events from before a time
///
/// A relay with a retention does this by itself. This command deletes by the same rules: only events that every
/// subscription has finished; parked and undelivered events stay. It deletes in small batches under the same lock, and
/// each batch writes an audit row; stopping it loses nothing. In a table with a state per row it deletes the rows that
/// `retention_scope` allows: by default only those that a relay delivered while a retention was configured. The age counts
/// from what retention counts from. In databases with roles, it needs the role of the relay.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider cleanup --before 2026-01-31T12:00:00Z --dry-run        count only
  postrider cleanup --before 30d --reason 'disk is full' --yes
  postrider cleanup --before 30d --outbox shop")]
pub struct Cleanup {
    /// A time (RFC 3339), or an age (30d): only events before it
    #[arg(long, value_name = "TIME", value_parser = time)]
    before: Timestamp,
    /// Count the events and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// Reason, written to the audit trail
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Do not ask; needed without a terminal
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    outbox: OutboxArg,
}

impl Cleanup {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        let (name, outbox) = self.outbox.one(&settings)?;
        let cleaned =
            operator::run(outbox, async |operator| self.clean(context, operator, name, outbox).await)?;
        context.output.data(&cleaned)
    }

    async fn clean(
        &self,
        context: &Context,
        operator: &Operator,
        name: &str,
        outbox: &OutboxSettings,
    ) -> Result<Cleaned, Failure> {
        let retention = &outbox.retention;
        let mut wanted = Wanted::new(self.before);
        wanted.scope = retention.scope;
        wanted.at_expiry = retention.at_expiry;
        wanted.batch_events_max = retention.batch_events_max;
        let CleanupPlan { events: matched, held, .. } = operator.plan_cleanup(wanted).await?;
        let before = self.before;
        context
            .output
            .say(format!("{name}: {matched} delivered event(s) from before {before} can be deleted"));
        if let Some(held) = held {
            context.output.say(format!(
                "{name}: subscription {} still needs events from {} on; these stay",
                held.subscription, held.oldest
            ));
        }
        if matched.events == 0
            && operator.store().row_table().is_some()
            && wanted.scope == RetentionScope::Own
        {
            context.output.say(format!(
                "{name}: only rows that a relay delivered while a retention was configured are Postrider's to delete; see \
                 retention and retention_scope"
            ));
        }
        let mut cleaned = Cleaned { outbox: name.to_owned(), before, matched, deleted: 0 };
        if self.dry_run || matched.events == 0 && !matched.at_least {
            context.output.say(format!("{name}: nothing was deleted"));
            return Ok(cleaned);
        }
        operator::confirm("delete these events?", self.yes)?;
        let progress = Progress::new(context.output, Some(matched.events), "{bar:30} {msg}");
        let mut report = |deleted: u64| progress.set(deleted, format!("{deleted} deleted"));
        cleaned.deleted = operator.cleanup(wanted, self.reason.as_deref(), &mut report).await?;
        drop(progress);
        context.output.say(format!("{name}: deleted {} event(s)", cleaned.deleted));
        Ok(cleaned)
    }
}

#[derive(Serialize)]
struct Cleaned {
    outbox: String,
    before: Timestamp,
    matched: ParkedCount,
    deleted: u64,
}

impl View for Cleaned {
    fn table(&self) -> Table {
        let columns = [
            ("outbox", Align::Left),
            ("before", Align::Left),
            ("matched", Align::Right),
            ("deleted", Align::Right),
        ];
        let mut table = Table::new(columns, "nothing was deleted");
        table.row([
            self.outbox.clone(),
            self.before.to_string(),
            self.matched.to_string(),
            self.deleted.to_string(),
        ]);
        table
    }
}

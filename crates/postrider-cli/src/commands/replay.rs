//! `postrider replay`

use std::num::NonZeroU32;

use clap::Args;
use postrider::operate::{Operator, ReplayFilter, ReplayOptions, ReplayPlan, ReplayProgress, Replayed};
use postrider::{Code, Error, Position, Timestamp};
use serde::Serialize;

use super::events::list::time;
use super::outbox_arg::OutboxArg;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::operator;
use crate::output::{Align, Progress, Table, View};

/// Deliver finished events of one subscription again
///
/// For example after a bug in a consumer. The subscription keeps its progress, and other subscriptions are not affected.
/// The messages have the header `postrider-redelivery: replay`. Events of one key arrive in order, and later events of the key
/// wait for them. Events that still wait, or that an operator must decide about, are left as they are; expired events are
/// not replayed. Also replayed are events that the subscription finished without delivery: discarded, skipped, filtered out,
/// or from before its start.
///
/// A relay delivers them; a running one begins within a third of its lease. The command adds no more events while 10,000 of
/// them wait for delivery. If it is stopped, what it has replayed stays, and it prints where to continue. Tables with a state
/// per row have no progress that could be kept: there it is refused.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider replay orders --since 2h --dry-run                     count only
  postrider replay orders --since 2026-01-31T12:00:00Z --until 2026-01-31T13:00:00Z --reason 'consumer fixed'
  postrider replay orders --key Order/42 --yes
  postrider replay orders --from 4711 --type order.placed --events-per-second 100")]
pub struct Replay {
    /// Name of the subscription
    subscription: String,
    /// Only events at or after this time (RFC 3339), or no older than this (2h)
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Timestamp>,
    /// Only events at or before this time (RFC 3339), or at least this old (2h)
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<Timestamp>,
    /// Only events at this position or above
    #[arg(long, value_name = "POSITION", value_parser = position)]
    from: Option<Position>,
    /// Only events at this position or below
    #[arg(long, value_name = "POSITION", value_parser = position)]
    to: Option<Position>,
    /// Only this type, compared exactly
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only this ordering key of the event, for example Order/42, compared exactly
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Select all finished events, if nothing else selects events
    #[arg(long)]
    all: bool,
    /// Replay at most this many events per second on average
    #[arg(long, value_name = "COUNT")]
    events_per_second: Option<NonZeroU32>,
    /// Count the events and change nothing
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

fn position(text: &str) -> Result<Position, &'static str> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.map(Position::new).ok_or("use a position, a number from 1 on, as `postrider events list` shows it")
}

impl Replay {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let filter = self.filter()?;
        let settings = context.settings()?;
        let (_, outbox) = self.outbox.one(&settings)?;
        let result = operator::run(outbox, async |operator| self.replay(context, operator, &filter).await)?;
        context.output.data(&result)
    }

    /// # Errors
    /// [`Code::ConfigValue`] if nothing is selected, or nothing can match.
    fn filter(&self) -> Result<ReplayFilter, Error> {
        let Self { since, until, from, to, event_type, key, .. } = self;
        let filter = ReplayFilter::default()
            .since(*since)
            .until(*until)
            .from(*from)
            .to(*to)
            .event_type(event_type.clone())
            .key(key.clone());
        let wrong = |what: &str, hint: &str| {
            Err(Error::new(Code::ConfigValue, what).with_effect("nothing was replayed").with_hint(hint))
        };
        if filter == ReplayFilter::default() && !self.all {
            return wrong("no event is selected", "pass a filter, or --all; see --help");
        }
        if since.zip(*until).is_some_and(|(since, until)| since > until) {
            return wrong("--since is after --until", "exchange the two times");
        }
        if from.zip(*to).is_some_and(|(from, to)| from > to) {
            return wrong("--from is above --to", "exchange the two positions");
        }
        Ok(filter)
    }

    async fn replay(
        &self,
        context: &Context,
        operator: &Operator,
        filter: &ReplayFilter,
    ) -> Result<Report, Failure> {
        let name = &self.subscription;
        let planned = operator.plan_replay(name, filter).await?;
        let matched = planned.events();
        context.output.say(format!("{name}: {matched} finished event(s) can be delivered again"));
        self.say_excluded(context, planned.counts);
        let mut report = Report { subscription: name.clone(), planned, counts: Replayed::default() };
        if self.dry_run || matched.events == 0 && !matched.at_least {
            context.output.say(format!("{name}: nothing was replayed"));
            return Ok(report);
        }
        operator::confirm("deliver these events again?", self.yes)?;
        let options = ReplayOptions::default()
            .reason(self.reason.clone())
            .events_per_second(self.events_per_second.map(NonZeroU32::get));
        let bar = Progress::new(context.output, Some(matched.events), "{bar:30} {msg}");
        let mut state = ReplayProgress::default();
        state.reached = self.from.map_or(Position::ZERO, Position::previous);
        let mut said = false;
        let mut interrupts = Interrupts::listen()?;
        let mut progress = |now: ReplayProgress| {
            state = now;
            let waits = if now.is_waiting { "; waits for the relay to deliver them" } else { "" };
            bar.set(now.counts.replayed, format!("{} replayed{waits}", now.counts.replayed));
            if now.is_waiting && !std::mem::replace(&mut said, true) {
                context.output.say(format!(
                    "{name}: {} replayed event(s) wait for delivery; more follow when a relay has delivered them. If no \
                     relay runs, start one, or stop this command",
                    now.waiting
                ));
            }
        };
        let replayed = tokio::select! {
            replayed = operator.replay(name, filter, options, &mut progress) => Some(replayed),
            () = interrupts.next() => None,
        };
        drop(bar);
        let (counts, failure) = match replayed {
            Some(Ok(counts)) => (counts, None),
            Some(Err(error)) => (state.counts, Some(error.into())),
            None => (state.counts, Some(Failure::Interrupted)),
        };
        context.output.say(format!("{name}: replayed {} event(s)", counts.replayed));
        if let Some(failure) = failure {
            // A batch that was cancelled may be committed. Its events are parked, so a replay does not repeat them.
            let next = state.reached.next();
            context.output.say(format!("{name}: to continue, run the command again with --from {next}"));
            return Err(failure);
        }
        report.counts = counts;
        Ok(report)
    }

    /// Which matching events a replay leaves as they are.
    fn say_excluded(&self, context: &Context, counts: Replayed) {
        let excluded = [
            (counts.already_parked, "are parked: see postrider parked list and postrider dead list"),
            (counts.not_done, "were not delivered yet: the relay will deliver them"),
            (counts.expired, "have expired"),
            (counts.damaged, "have a type or key that is no valid text"),
        ];
        for (number, why) in excluded.into_iter().filter(|(number, _)| *number > 0) {
            context.output.say(format!("{}: {number} other event(s) {why}", self.subscription));
        }
    }
}

#[derive(Serialize)]
struct Report {
    subscription: String,
    planned: ReplayPlan,
    #[serde(flatten)]
    counts: Replayed,
}

impl View for Report {
    fn table(&self) -> Table {
        let columns = [
            ("subscription", Align::Left),
            ("matched", Align::Right),
            ("replayed", Align::Right),
            ("parked before", Align::Right),
            ("not delivered yet", Align::Right),
            ("expired", Align::Right),
        ];
        let mut table = Table::new(columns, "nothing was replayed");
        let (counts, matched) = (&self.counts, self.planned.events());
        table.row([
            self.subscription.clone(),
            matched.to_string(),
            counts.replayed.to_string(),
            counts.already_parked.to_string(),
            counts.not_done.to_string(),
            counts.expired.to_string(),
        ]);
        table
    }
}

//! Which parked events a command means, and the changes that it makes to them.

use clap::{Args, ValueEnum};
use postrider::ledger::Redelivery;
use postrider::operate::{ChangeOptions, Operator, ParkedAction, ParkedChanged, ParkedCount, ParkedFilter};
use postrider::store::ParkedState;
use postrider::{Code, Error, Timestamp};
use serde::Serialize;

use crate::commands::events::list::time;
use crate::commands::outbox_arg::OutboxArg;
use crate::context::Context;
use crate::failure::Failure;
use crate::operator;
use crate::output::{Align, Progress, Table, View};

/// Counting stops here.
const COUNT_MAX: u64 = 100_000;

/// The selected events.
#[derive(Debug, Args)]
pub(in crate::commands) struct Selection {
    /// Ids of events, or their positions or row ids
    #[arg(value_name = "EVENT")]
    pub(super) events: Vec<String>,
    /// Only this subscription
    #[arg(long, value_name = "NAME")]
    pub(super) subscription: Option<String>,
    /// Only this ordering key, for example Order/42
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Only this type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Last error contains this text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only events that an operator asked to deliver again with this command
    #[arg(long, value_enum, value_name = "COMMAND")]
    redelivery: Option<Again>,
    /// State changed at or after this time (RFC 3339), or no longer ago than this (2h)
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Timestamp>,
    /// State changed at or before this time (RFC 3339), or at least this long ago (2h)
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<Timestamp>,
    #[command(flatten)]
    pub(super) outbox: OutboxArg,
}

/// The commands that deliver events again.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Again {
    Retry,
    Replay,
}

impl From<Again> for Redelivery {
    fn from(again: Again) -> Self {
        match again {
            Again::Retry => Self::Retry,
            Again::Replay => Self::Replay,
        }
    }
}

impl Selection {
    pub(in crate::commands) fn filter(&self, states: &[ParkedState]) -> ParkedFilter {
        ParkedFilter::default()
            .states(states.to_vec())
            .events(self.events.clone())
            .key(self.key.clone())
            .event_type(self.event_type.clone())
            .error(self.error.clone())
            .redelivery(self.redelivery.map(Redelivery::from))
            .since(self.since)
            .until(self.until)
    }

    fn is_empty(&self) -> bool {
        self.events.is_empty()
            && [&self.key, &self.event_type, &self.error].iter().all(|text| text.is_none())
            && self.redelivery.is_none()
            && self.since.is_none()
            && self.until.is_none()
    }

    /// The selected subscription, or all of them.
    pub(in crate::commands) async fn subscriptions(
        &self,
        operator: &Operator,
    ) -> Result<Vec<String>, Failure> {
        let known = operator.store().subscription_names().await?;
        let Some(wanted) = &self.subscription else { return Ok(known) };
        if known.contains(wanted) {
            return Ok(vec![wanted.clone()]);
        }
        Err(Error::new(Code::SubscriptionUnknown, format!("subscription {wanted:?} does not exist"))
            .with_effect("nothing was changed")
            .into())
    }
}

/// The options of a command that changes events.
#[derive(Debug, Args)]
pub(in crate::commands) struct ChangeArgs {
    #[command(flatten)]
    selection: Selection,
    /// Select all events of the command's states, if nothing else selects events
    #[arg(long)]
    all: bool,
    /// Reason, written to the audit trail
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Do not ask; needed without a terminal
    #[arg(long)]
    yes: bool,
}

/// What a command changes, in words.
pub(in crate::commands) struct ChangeWords {
    pub(in crate::commands) action: ParkedAction,
    /// `retry`
    pub(in crate::commands) verb: &'static str,
    /// `retried`
    pub(in crate::commands) done: &'static str,
    /// `dead`
    pub(in crate::commands) what: &'static str,
    pub(in crate::commands) states: &'static [ParkedState],
}

impl ChangeArgs {
    pub(in crate::commands) fn run(
        &self,
        context: &Context,
        words: &ChangeWords,
        out_of_order: bool,
    ) -> Result<(), Failure> {
        if self.selection.is_empty() && !self.all {
            let what = format!("no {} event is selected", words.what);
            let hint = "pass ids of events, a filter, or --all; see --help";
            let error =
                Error::new(Code::ConfigValue, what).with_effect("nothing was changed").with_hint(hint);
            return Err(error.into());
        }
        let settings = context.settings()?;
        let (_, outbox) = self.selection.outbox.one(&settings)?;
        let change = async |operator: &Operator| self.change(context, operator, words, out_of_order).await;
        context.output.data(&operator::run(outbox, change)?)
    }

    async fn change(
        &self,
        context: &Context,
        operator: &Operator,
        words: &ChangeWords,
        out_of_order: bool,
    ) -> Result<Changes, Failure> {
        let subscriptions = self.selection.subscriptions(operator).await?;
        let filter = self.selection.filter(words.states);
        let mut matching = Vec::new();
        for subscription in subscriptions {
            let count = operator.count(std::slice::from_ref(&subscription), &filter, COUNT_MAX).await?;
            if count.events > 0 || count.at_least {
                context.output.say(format!("{subscription}: {count} {} event(s) match", words.what));
                matching.push((subscription, count));
            }
        }
        if matching.is_empty() {
            context.output.say(format!("no {} event matches; nothing was changed", words.what));
            return Ok(Changes { subscriptions: Vec::new() });
        }
        operator::confirm(&format!("{} these events?", words.verb), self.yes)?;
        let mut changes = Changes { subscriptions: Vec::new() };
        for (subscription, matched) in matching {
            let progress = Progress::new(context.output, Some(matched.events), "{bar:30} {msg}");
            let options = ChangeOptions::default().reason(self.reason.clone()).out_of_order(out_of_order);
            let mut report = |so_far: ParkedChanged| {
                progress.set(so_far.changed, format!("{} {}", so_far.changed, words.done))
            };
            let changed = operator.change(&subscription, words.action, &filter, options, &mut report).await?;
            drop(progress);
            self.report_unchanged(context, &subscription, words, changed);
            changes.subscriptions.push(Change { subscription, matched, changed });
        }
        Ok(changes)
    }

    fn report_unchanged(
        &self,
        context: &Context,
        subscription: &str,
        words: &ChangeWords,
        changed: ParkedChanged,
    ) {
        if changed.moved_on > 0 {
            context.output.say(format!(
                "{subscription}: {} event(s) were not {}: later events with their key may have been delivered. Add \
                 --out-of-order to deliver them anyway; their messages have the header postrider-redelivery",
                changed.moved_on, words.done
            ));
        }
        if changed.not_applicable > 0 {
            context.output.say(format!(
                "{subscription}: {} event(s) were not {}: their state does not allow it, or has changed meanwhile",
                changed.not_applicable, words.done
            ));
        }
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Changes {
    subscriptions: Vec<Change>,
}

#[derive(Serialize)]
struct Change {
    subscription: String,
    matched: ParkedCount,
    #[serde(flatten)]
    changed: ParkedChanged,
}

impl View for Changes {
    fn table(&self) -> Table {
        let columns = [
            ("subscription", Align::Left),
            ("matched", Align::Right),
            ("changed", Align::Right),
            ("key moved on", Align::Right),
            ("not changed", Align::Right),
        ];
        let mut table = Table::new(columns, "nothing was changed");
        for Change { subscription, matched, changed } in &self.subscriptions {
            table.row([
                subscription.clone(),
                matched.to_string(),
                changed.changed.to_string(),
                changed.moved_on.to_string(),
                changed.not_applicable.to_string(),
            ]);
        }
        table
    }
}

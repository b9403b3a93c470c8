//! `postrider subscriptions`

mod list;

use clap::{Args, Subcommand};
use postrider::operate::{Operator, SubscriptionAction};
use postrider::store::Start;

use super::outbox_arg::OutboxArg;
use crate::config::kind::start;
use crate::context::Context;
use crate::failure::Failure;
use crate::operator;

const EXAMPLES: &str = "Examples:
  postrider subscriptions list
  postrider subscriptions add audit --start now
  postrider subscriptions move orders --to time:2026-01-31T12:00:00Z --reason 'consumer lost its data'
  postrider subscriptions remove old --reason 'service is gone'";

/// Show, add, move and remove subscriptions
///
/// A relay creates the subscriptions of its configuration by itself. Changes are written to the audit trail. In tables with
/// a state per row, each row has its own state: there a subscription can be neither moved nor removed.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Subscriptions {
    #[command(subcommand)]
    command: SubscriptionsCommand,
}

#[derive(Debug, Subcommand)]
enum SubscriptionsCommand {
    List(list::List),
    Add(Add),
    Move(Move),
    Remove(Remove),
}

/// What a change of one subscription needs.
#[derive(Debug, Args)]
struct Target {
    /// Name of the subscription
    subscription: String,
    #[command(flatten)]
    outbox: OutboxArg,
    /// Reason, written to the audit trail
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Create a subscription before its relay starts
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider subscriptions add audit --start now
  postrider subscriptions add search --start position:4711")]
struct Add {
    #[command(flatten)]
    target: Target,
    /// beginning, now, position:NUMBER or time:RFC3339
    #[arg(long, value_name = "START", default_value = "beginning", value_parser = parse_start)]
    start: Start,
}

/// Continue a subscription from another position or time
///
/// Events before it are skipped; events after it are delivered, also if they were delivered before. Its parked events from there
/// on are removed, because they are read again. A relay that leads it begins again within a third of its lease; what it has in
/// flight may arrive twice.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider subscriptions move orders --to position:4711
  postrider subscriptions move orders --to now --yes --reason 'the backlog is not needed'")]
struct Move {
    #[command(flatten)]
    target: Target,
    /// beginning, now, position:NUMBER or time:RFC3339
    #[arg(long, value_name = "START", value_parser = parse_start)]
    to: Start,
    /// Do not ask; needed without a terminal
    #[arg(long)]
    yes: bool,
}

/// Delete a subscription with its progress and its parked events
///
/// Refused while a relay leads it. Events that only it needed are deleted by retention. If a relay has it in its configuration, the
/// relay creates it again when it starts.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider subscriptions remove old --reason 'service is gone'")]
struct Remove {
    #[command(flatten)]
    target: Target,
    /// Do not ask; needed without a terminal
    #[arg(long)]
    yes: bool,
}

impl Subscriptions {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let target = match &self.command {
            SubscriptionsCommand::List(command) => return command.run(context),
            SubscriptionsCommand::Add(Add { target, .. })
            | SubscriptionsCommand::Move(Move { target, .. })
            | SubscriptionsCommand::Remove(Remove { target, .. }) => target,
        };
        let settings = context.settings()?;
        let (_, outbox) = target.outbox.one(&settings)?;
        operator::run(outbox, async |operator| match &self.command {
            SubscriptionsCommand::List(_) => Ok(()),
            SubscriptionsCommand::Add(Add { start, .. }) => target.add(context, operator, *start).await,
            SubscriptionsCommand::Move(Move { to, yes, .. }) => {
                target.move_to(context, operator, *to, *yes).await
            }
            SubscriptionsCommand::Remove(Remove { yes, .. }) => target.remove(context, operator, *yes).await,
        })
    }
}

impl Target {
    async fn change(&self, operator: &Operator, action: SubscriptionAction) -> Result<bool, Failure> {
        Ok(operator.change_subscription(&self.subscription, action, self.reason.as_deref()).await?)
    }

    async fn add(&self, context: &Context, operator: &Operator, start: Start) -> Result<(), Failure> {
        let created = self.change(operator, SubscriptionAction::Add(start)).await?;
        let name = &self.subscription;
        context.output.say(match created {
            true => format!("created {name}, which starts at {start}"),
            false => format!("{name} exists already; nothing was changed"),
        });
        Ok(())
    }

    async fn move_to(
        &self,
        context: &Context,
        operator: &Operator,
        to: Start,
        yes: bool,
    ) -> Result<(), Failure> {
        let name = &self.subscription;
        let plan = operator.plan_move(name, to).await?;
        context.output.say(format!(
            "{name}: {} undelivered event(s) are skipped, {} event(s) are delivered again",
            plan.skipped, plan.repeated
        ));
        operator::confirm(&format!("move {name} to {to}?"), yes)?;
        self.change(operator, SubscriptionAction::Move(to)).await?;
        context.output.say(format!("{name} continues at {to}"));
        Ok(())
    }

    async fn remove(&self, context: &Context, operator: &Operator, yes: bool) -> Result<(), Failure> {
        let name = &self.subscription;
        let known = operator.store().overview(COUNT_MAX).await?.subscriptions;
        if let Some(of) = known.iter().find(|of| of.name == *name) {
            let more = if of.backlog.more { "at least " } else { "" };
            context.output.say(format!(
                "{name}: {more}{} undelivered and {} parked event(s) are not delivered to it any more",
                of.backlog.events,
                of.parked.total()
            ));
            operator::confirm(&format!("remove {name}?"), yes)?;
        }
        self.change(operator, SubscriptionAction::Remove).await?;
        context.output.say(format!("removed {name}"));
        Ok(())
    }
}

/// Counting stops here.
const COUNT_MAX: u64 = 100_000;

fn parse_start(text: &str) -> Result<Start, String> {
    start(text).ok_or_else(|| "use beginning, now, position:NUMBER or time:RFC3339".to_owned())
}

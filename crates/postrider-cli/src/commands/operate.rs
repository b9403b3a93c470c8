//! `postrider pause`, `postrider resume` and `postrider accept-history`: decisions of an operator about one
//! subscription. The decision is stored in the database; the relay that leads reads it within a third of its lease,
//! wherever it runs.

use clap::Args;
use postrider::operate::{Operator, SubscriptionAction};
use postrider::store::Start;
use postrider::{BoxFuture, Code, Error, Position, Result};

use super::outbox_arg::OutboxArg;
use crate::config::kind::start;
use crate::config::settings::OutboxSettings;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};
use crate::operator;

/// The selected subscription.
#[derive(Debug, Args)]
struct Target {
    /// Name of the subscription
    subscription: String,
    #[command(flatten)]
    outbox: OutboxArg,
}

impl Target {
    /// Runs an operation on the subscription in every shard of its outbox, and returns the names of the shards. A shard
    /// that fails does not prevent the others.
    fn decide_everywhere(
        &self,
        context: &Context,
        decision: impl for<'a> Fn(&'a Operator, &'a str) -> BoxFuture<'a, Result<()>>,
    ) -> Result<Vec<String>, Failure> {
        let settings = context.settings()?;
        let outboxes = self.outbox.one_with_shards(&settings)?;
        let (mut decided, mut failed) = (Vec::new(), Vec::new());
        for (name, outbox) in outboxes {
            let is_shard = outbox.shard.is_some();
            match block_on(Threads::One, self.decide_on(outbox, &decision)) {
                Ok(()) if is_shard => decided.push(name.to_owned()),
                Ok(()) => {}
                Err(Failure::Errors(errors)) if is_shard => {
                    failed.extend(errors.into_iter().map(|error| error.within(name)));
                }
                Err(failure) => return Err(failure),
            }
        }
        if failed.is_empty() { Ok(decided) } else { Err(Failure::Errors(failed)) }
    }

    async fn decide_on(
        &self,
        outbox: &OutboxSettings,
        decision: impl for<'a> Fn(&'a Operator, &'a str) -> BoxFuture<'a, Result<()>>,
    ) -> Result<(), Failure> {
        operator::run_async(outbox, async |operator| decision(operator, &self.subscription).await).await
    }

    /// Runs an operation on the subscription in its outbox, or in one shard of it.
    fn decide(
        &self,
        context: &Context,
        decision: impl for<'a> Fn(&'a Operator, &'a str) -> BoxFuture<'a, Result<()>>,
    ) -> Result<(), Failure> {
        let settings = context.settings()?;
        let (_, outbox) = self.outbox.one(&settings)?;
        block_on(Threads::One, self.decide_on(outbox, &decision))
    }
}

/// Stop a subscription until `resume`
///
/// Events in flight are finished and settled. Its backlog grows; nothing is lost. If the outbox has shards, the
/// subscription stops on all of them; `--outbox NAME:GROUP.MEMBER` selects one.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider pause orders --reason 'the warehouse is moving'
  postrider pause orders --outbox shop")]
pub struct Pause {
    #[command(flatten)]
    target: Target,
    /// Reason, shown by `status`
    #[arg(long, value_name = "TEXT", default_value = "paused by an operator")]
    reason: String,
}

impl Pause {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let shards = self.target.decide_everywhere(context, |operator, name| {
            let reason = self.reason.clone();
            Box::pin(async move { operator.pause(name, &reason).await })
        })?;
        let (name, on) = (&self.target.subscription, on(&shards));
        context.output.say(format!("paused {name}{on}; to continue: postrider resume {name}"));
        Ok(())
    }
}

/// On which shards something happened, as the end of a sentence.
fn on(shards: &[String]) -> String {
    if shards.is_empty() { String::new() } else { format!(" on {}", shards.join(", ")) }
}

/// Continue a paused subscription
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider resume orders")]
pub struct Resume {
    #[command(flatten)]
    target: Target,
}

impl Resume {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let shards =
            self.target.decide_everywhere(context, |operator, name| Box::pin(operator.resume(name)))?;
        context.output.say(format!("{} continues{}", self.target.subscription, on(&shards)));
        Ok(())
    }
}

/// Continue a subscription that halted because the history of the database changed
///
/// `--from` specifies where to continue: events from there on are delivered, even if consumers already received
/// them from the lost history. Parked rows from there on are removed, because their events are read again.
/// `floor` is the safe choice if the reason suggests it: it continues after the progress recorded in the
/// database, may repeat events and skips none.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider accept-history orders --from floor           repeats events that are not recorded as done; skips nothing
  postrider accept-history orders --from position:4711   skips every event below this position
  postrider accept-history orders --from beginning       repeats every event in the outbox
  postrider accept-history orders --from now             skips every event in the outbox")]
pub struct AcceptHistory {
    #[command(flatten)]
    target: Target,
    /// floor, now, beginning, position:NUMBER or time:RFC3339
    #[arg(long, value_name = "START", value_parser = parse_resume_from)]
    from: ResumeFrom,
}

/// Where to continue.
#[derive(Debug, Clone, Copy)]
enum ResumeFrom {
    /// After the recorded progress.
    Floor,
    At(Start),
}

impl AcceptHistory {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let from = self.from;
        self.target.decide(context, |operator, name| Box::pin(accept(operator, name, from)))?;
        context.output.say(format!("{} continues with the database as it is now", self.target.subscription));
        Ok(())
    }
}

async fn accept(operator: &Operator, name: &str, from: ResumeFrom) -> Result<()> {
    let start = match from {
        ResumeFrom::At(start) => start,
        ResumeFrom::Floor => {
            let known = operator.store().overview(0).await?.subscriptions;
            let known = known.iter().find(|known| known.name == name);
            if let Some(reason) =
                known.and_then(|known| known.halted.as_ref()).filter(|said| !offers_floor(said))
            {
                let what =
                    format!("the recorded progress of {name} does not belong to this history: {reason}");
                return Err(Error::new(Code::HistoryChanged, what).with_effect("nothing was changed").with_hint(
                    "pass the first position written since then, or --from beginning, which repeats every event",
                ));
            }
            // The store rejects an unknown subscription.
            Start::Position(known.map_or(Position::ZERO, |known| known.floor).next())
        }
    };
    operator.change_subscription(name, SubscriptionAction::AcceptHistory(start), None).await.map(drop)
}

/// If events were restored without their progress, new events may be below the floor. The reason of the halt then does
/// not offer `--from floor`.
fn offers_floor(reason: &str) -> bool {
    reason.contains("`--from floor`")
}

fn parse_resume_from(text: &str) -> Result<ResumeFrom, String> {
    if text == "floor" {
        return Ok(ResumeFrom::Floor);
    }
    start(text)
        .map(ResumeFrom::At)
        .ok_or_else(|| "use floor, now, beginning, position:NUMBER or time:RFC3339".to_owned())
}

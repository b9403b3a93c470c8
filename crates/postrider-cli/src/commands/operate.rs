//! `postrider pause`, `postrider resume` and `postrider accept-history`: decisions of an operator about one
//! subscription. The decision is stored in the database; the relay that leads reads it within a third of its lease,
//! wherever it runs.

use clap::Args;
use postrider::store::{Start, Store};
use postrider::{BoxFuture, Code, Error, Position, Result};

use super::outbox_arg::OutboxArg;
use crate::config::kind::start;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};

/// The selected subscription.
#[derive(Debug, Args)]
struct Target {
    /// Name of the subscription
    subscription: String,
    #[command(flatten)]
    outbox: OutboxArg,
}

impl Target {
    /// Runs an operation on the subscription in its outbox.
    fn decide(
        &self,
        context: &Context,
        decision: impl for<'a> Fn(&'a dyn Store, &'a str) -> BoxFuture<'a, Result<()>>,
    ) -> Result<(), Failure> {
        let settings = context.settings()?;
        let (_, outbox) = self.outbox.one(&settings)?;
        block_on(Threads::One, async {
            let store = outbox.database.open().await?;
            let decided = decision(&*store, &self.subscription).await;
            store.close().await;
            Ok(decided?)
        })
    }
}

/// Stop a subscription until `resume`
///
/// Events in flight are finished and settled. Its backlog grows; nothing is lost.
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
        self.target.decide(context, |store, name| store.pause(name, Some(&self.reason)))?;
        context.output.say(format!("paused {}; to continue: postrider resume {0}", self.target.subscription));
        Ok(())
    }
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
        self.target.decide(context, |store, name| store.pause(name, None))?;
        context.output.say(format!("{} continues", self.target.subscription));
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
        self.target.decide(context, |store, name| Box::pin(accept(store, name, from)))?;
        context.output.say(format!("{} continues with the database as it is now", self.target.subscription));
        Ok(())
    }
}

async fn accept(store: &dyn Store, name: &str, from: ResumeFrom) -> Result<()> {
    let start = match from {
        ResumeFrom::At(start) => start,
        ResumeFrom::Floor => {
            let known = store.overview(0).await?.subscriptions;
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
    store.accept_history(name, start).await
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

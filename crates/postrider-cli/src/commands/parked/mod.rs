//! `postrider parked`

pub(super) mod list;
pub(super) mod selection;

use clap::{Args, Subcommand};
use postrider::operate::ParkedAction;
use postrider::store::ParkedState;

use self::list::ListArgs;
use self::selection::{ChangeArgs, ChangeWords};
use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider parked list --subscription orders
  postrider parked retry --error timeout --reason 'the gateway is back'
  postrider parked skip 4711 --subscription orders --reason 'test order'";

/// States of events that still wait.
const WAITING: &[ParkedState] =
    &[ParkedState::Retry, ParkedState::Behind, ParkedState::Held, ParkedState::Unrouted];

/// Show and change events that wait: retried later, behind another event of their key, or without a route
///
/// `dead` is for events that were given up. Changes are written to the audit trail, and a running relay applies
/// them within a third of its lease; an event that it is sending at that moment is still delivered.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Parked {
    #[command(subcommand)]
    command: ParkedCommand,
}

#[derive(Debug, Subcommand)]
enum ParkedCommand {
    List(List),
    Retry(Retry),
    Skip(Skip),
    Kill(Kill),
}

/// Show events that wait, oldest first
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider parked list
  postrider parked list --key Order/42 --json")]
struct List {
    #[command(flatten)]
    list: ListArgs,
}

/// Try events again now, with all their attempts
///
/// An event behind another one of its key is not changed: it follows when that one is delivered.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider parked retry --all --yes
  postrider parked retry --error 'connection refused' --reason 'the broker is back'")]
struct Retry {
    #[command(flatten)]
    change: ChangeArgs,
}

/// Never deliver events that wait; later events of their key continue
///
/// The events stay in the outbox until retention deletes them, and other subscriptions are not affected.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider parked skip 0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c77 --reason 'duplicate order'")]
struct Skip {
    #[command(flatten)]
    change: ChangeArgs,
}

/// Give up events that wait: they are dead, and can be retried with `dead retry`
///
/// An event behind another one of its key is not changed. In a table with a state per row this is possible only while no
/// relay leads the subscription.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider parked kill 4711 --subscription orders --reason 'poison'")]
struct Kill {
    #[command(flatten)]
    change: ChangeArgs,
}

fn words(action: ParkedAction, verb: &'static str, done: &'static str) -> ChangeWords {
    ChangeWords { action, verb, done, what: "waiting", states: WAITING }
}

impl Parked {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        match &self.command {
            ParkedCommand::List(command) => command.list.run(context, WAITING, "no event waits"),
            ParkedCommand::Retry(command) => {
                command.change.run(context, &words(ParkedAction::Retry, "retry", "retried"), false)
            }
            ParkedCommand::Skip(command) => {
                command.change.run(context, &words(ParkedAction::Skip, "skip", "skipped"), false)
            }
            ParkedCommand::Kill(command) => {
                command.change.run(context, &words(ParkedAction::Kill, "give up", "given up"), false)
            }
        }
    }
}

//! `postrider dead`

mod show;

use clap::{Args, Subcommand};
use postrider::operate::ParkedAction;
use postrider::store::ParkedState;

use super::parked::list::ListArgs;
use super::parked::selection::{ChangeArgs, ChangeWords};
use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider dead list
  postrider dead show 0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c77
  postrider dead retry --type order.placed --since 2h --reason 'consumer fixed'
  postrider dead discard --until 30d --reason 'too old'";

/// States of events that were given up.
const GIVEN_UP: &[ParkedState] = &[ParkedState::Dead, ParkedState::Expired];

/// Show, retry and discard dead letters: events that were given up
///
/// An event is dead after its last attempt, or if it was rejected. It stays until an operator acts. Changes are
/// written to the audit trail, and a running relay applies them within a third of its lease.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Dead {
    #[command(subcommand)]
    command: DeadCommand,
}

#[derive(Debug, Subcommand)]
enum DeadCommand {
    List(List),
    Show(show::Show),
    Retry(Retry),
    Discard(Discard),
}

/// Show dead and expired events, oldest first
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider dead list --subscription orders
  postrider dead list --error 'no such customer' --json")]
struct List {
    #[command(flatten)]
    list: ListArgs,
}

/// Deliver dead events, with all their attempts
///
/// If later events with the same key may have been delivered already, an event is retried only with --out-of-order:
/// it then arrives after them. Its message has the header `postrider-redelivery: retry`. An expired event is not retried,
/// because it would expire again.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider dead retry 0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c77 --reason 'customer created'
  postrider dead retry --all --out-of-order --yes --reason 'consumer fixed'")]
struct Retry {
    #[command(flatten)]
    change: ChangeArgs,
    /// Also events whose key has moved on
    #[arg(long)]
    out_of_order: bool,
}

/// Forget dead and expired events: this subscription never delivers them
///
/// The events stay in the outbox until retention deletes them, and other subscriptions are not affected. A table with a
/// state per row has no state for this; there it is refused.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider dead discard 4711 --subscription orders --reason 'test data'")]
struct Discard {
    #[command(flatten)]
    change: ChangeArgs,
}

impl Dead {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let words = |action, verb, done| ChangeWords { action, verb, done, what: "dead", states: GIVEN_UP };
        match &self.command {
            DeadCommand::List(command) => command.list.run(context, GIVEN_UP, "no event is dead"),
            DeadCommand::Show(command) => command.run(context, GIVEN_UP),
            DeadCommand::Retry(command) => {
                let words = words(ParkedAction::Retry, "retry", "retried");
                command.change.run(context, &words, command.out_of_order)
            }
            DeadCommand::Discard(command) => {
                command.change.run(context, &words(ParkedAction::Discard, "discard", "discarded"), false)
            }
        }
    }
}

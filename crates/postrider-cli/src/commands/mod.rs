//! The commands, one file each. A file contains the command's arguments (a clap `Args` struct whose
//! `before_help` shows examples) and `run`, which returns a [`Failure`] instead of printing errors. A new
//! command is one file, one variant and one line in `run`; `UPDATE_DOCS=1 cargo test -p
//! postrider-cli --all-features --test cli pages` then brings the docs up to date.

mod adopt;
mod audit;
#[cfg(feature = "bench")]
mod bench;
mod cleanup;
mod completions;
mod config;
#[cfg(feature = "dashboard")]
mod dashboard;
mod dead;
#[cfg(feature = "sqlite")]
mod demo;
mod doctor;
mod events;
mod explain;
mod handlers;
mod healthcheck;
mod inbox;
mod migrate;
mod operate;
mod outbox_arg;
mod parked;
mod relay;
mod replay;
#[cfg(feature = "schemas")]
mod schemas;
mod status;
mod subscriptions;
#[cfg(feature = "top")]
mod top;
mod write;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// The command to run.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each is documented where it is defined, as its help")]
pub enum Command {
    #[cfg(feature = "sqlite")]
    Demo(demo::Demo),
    Relay(relay::Relay),
    Migrate(migrate::Migrate),
    Write(Box<write::Write>),
    Status(status::Status),
    #[cfg(feature = "top")]
    Top(top::Top),
    #[cfg(feature = "dashboard")]
    Dashboard(dashboard::Dashboard),
    Healthcheck(healthcheck::Healthcheck),
    Events(events::Events),
    Explain(explain::Explain),
    Dead(dead::Dead),
    Parked(parked::Parked),
    Replay(replay::Replay),
    Audit(audit::Audit),
    Cleanup(cleanup::Cleanup),
    Inbox(inbox::Inbox),
    Subscriptions(subscriptions::Subscriptions),
    Handlers(handlers::Handlers),
    Pause(operate::Pause),
    Resume(operate::Resume),
    AcceptHistory(operate::AcceptHistory),
    Adopt(adopt::Adopt),
    Config(config::Config),
    #[cfg(feature = "schemas")]
    Schemas(schemas::Schemas),
    Doctor(doctor::Doctor),
    #[cfg(feature = "bench")]
    Bench(bench::Bench),
    Completions(completions::Completions),
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    /// The reason of the failure, which has not been printed yet.
    pub fn run(&self, context: &Context) -> Result<(), Failure> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Demo(command) => command.run(context),
            Self::Relay(command) => command.run(context),
            Self::Migrate(command) => command.run(context),
            Self::Write(command) => command.run(context),
            Self::Status(command) => command.run(context),
            #[cfg(feature = "top")]
            Self::Top(command) => command.run(context),
            #[cfg(feature = "dashboard")]
            Self::Dashboard(command) => command.run(context),
            Self::Healthcheck(command) => command.run(context),
            Self::Events(command) => command.run(context),
            Self::Explain(command) => command.run(context),
            Self::Dead(command) => command.run(context),
            Self::Parked(command) => command.run(context),
            Self::Replay(command) => command.run(context),
            Self::Audit(command) => command.run(context),
            Self::Cleanup(command) => command.run(context),
            Self::Inbox(command) => command.run(context),
            Self::Subscriptions(command) => command.run(context),
            Self::Handlers(command) => command.run(context),
            Self::Pause(command) => command.run(context),
            Self::Resume(command) => command.run(context),
            Self::AcceptHistory(command) => command.run(context),
            Self::Adopt(command) => command.run(context),
            Self::Config(command) => command.run(context),
            #[cfg(feature = "schemas")]
            Self::Schemas(command) => command.run(context),
            Self::Doctor(command) => command.run(context),
            #[cfg(feature = "bench")]
            Self::Bench(command) => command.run(context),
            Self::Completions(command) => command.run(context),
        }
    }
}

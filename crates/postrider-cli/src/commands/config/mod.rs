//! `postrider config`

mod check;
mod init;
mod schema;
mod show;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider config init            write a starter postrider.toml
  postrider config check           report every mistake in it
  postrider config show --origin   effective values and where they come from
  postrider config schema          for editors: JSON Schema";

/// Create, check and explain the configuration
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Config {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    Init(init::Init),
    Check(check::Check),
    Show(show::Show),
    Schema(schema::SchemaCommand),
}

impl Config {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        match &self.command {
            ConfigCommand::Init(command) => command.run(context),
            ConfigCommand::Check(command) => command.run(context),
            ConfigCommand::Show(command) => command.run(context),
            ConfigCommand::Schema(command) => command.run(context),
        }
    }
}

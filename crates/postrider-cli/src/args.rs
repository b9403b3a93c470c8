//! The command line. Each command defines its arguments in its own file under `commands/`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser};

use crate::commands::Command;
use crate::failure::Failure;
use crate::output::{ColorWhen, Output, Verbosity};

const EXAMPLES: &str = "Examples:
  postrider demo                      watch it work, without any setup
  postrider config init               write a starter postrider.toml
  postrider migrate up                create the tables
  postrider relay                     deliver events until Ctrl-C
  postrider status --json             progress of each subscription";

/// Examples come first, because most readers want a line to copy.
const TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

/// Deliver the events of a transactional outbox to their destinations
#[derive(Debug, Parser)]
#[command(name = "postrider", version, before_help = EXAMPLES, arg_required_else_help = true)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Config file [default: $POSTRIDER_CONFIG, otherwise postrider.toml if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Set a config key for this run, for example --set sink.out.type=stdout; can be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Print data as JSON
    #[arg(long, global = true)]
    pub json: bool,

    /// When to use colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub color: ColorWhen,

    /// More messages on standard error; -vv for all
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,

    /// Print only errors on standard error
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

impl Global {
    /// The output settings from these options.
    pub fn output(&self) -> Output {
        let verbosity = match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, 1) => Verbosity::Verbose,
            (false, _) => Verbosity::Everything,
        };
        Output::new(self.json, self.color, verbosity)
    }
}

/// The complete command line for clap.
pub fn command() -> clap::Command {
    examples_first(Cli::command())
}

fn examples_first(command: clap::Command) -> clap::Command {
    command.help_template(TEMPLATE).mut_subcommands(examples_first)
}

/// Parses the command line, which begins with the program's name.
///
/// # Errors
/// [`Failure::Usage`], which clap also uses for `--help` and `--version`.
pub fn parse(args: Vec<OsString>) -> Result<Cli, Failure> {
    let matches = command().try_get_matches_from(args).map_err(Failure::Usage)?;
    Cli::from_arg_matches(&matches).map_err(Failure::Usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples_before_its_options() {
        fn check(mut command: clap::Command) {
            let help = command.render_long_help().to_string();
            let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("no {text} in\n{help}"));
            assert!(at("Examples:") < at("Usage:"), "{help}");
            command.get_subcommands().filter(|sub| sub.get_name() != "help").cloned().for_each(check);
        }
        let mut command = command();
        command.build();
        check(command);
    }
}

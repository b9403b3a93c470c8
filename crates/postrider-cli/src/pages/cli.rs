//! `docs/src/cli.md`

use std::fmt::Write;

use clap::{Arg, Command};

use super::{GENERATED, cell};
use crate::args;

/// Every command with its examples, usage and options.
pub fn cli() -> String {
    let mut root = args::command();
    root.build();
    let mut page = format!(
        "# Command line\n\n{GENERATED}\n\nData goes to standard output, everything else to standard error. The \
         [exit code](exit-codes.md) reports how a command ended.\n"
    );
    section(&root, true, &mut page);
    page
}

fn section(command: &Command, is_root: bool, page: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let about = text(command.get_about());
    let _ = write!(page, "\n## {name}\n\n{about}.\n");
    // The text that only `--help` prints comes after the line that `-h` prints too.
    if let Some(more) = text(command.get_long_about()).strip_prefix(&about) {
        let _ = write!(page, "\n{}\n", more.trim());
    }
    if let Some(examples) = command.get_before_help() {
        let _ = write!(page, "\n```text\n{}\n```\n", examples.to_string().trim_end());
    }
    let usage = command.clone().render_usage().to_string();
    let _ = write!(page, "\n`{}`\n", usage.trim_start_matches("Usage: ").trim_end());
    options(command, is_root, page);
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        section(sub, false, page);
    }
}

/// Options of every command are listed once, with the program itself.
fn options(command: &Command, is_root: bool, page: &mut String) {
    let hidden = |arg: &Arg| matches!(arg.get_id().as_str(), "help" | "version");
    let own = command.get_arguments().filter(|arg| !hidden(arg) && (is_root || !arg.is_global_set()));
    let rows: Vec<String> = own.map(row).collect();
    if rows.is_empty() {
        return;
    }
    let title = if is_root { "option of every command" } else { "option" };
    let _ = write!(page, "\n| {title} | meaning |\n|---|---|\n{}", rows.concat());
}

fn row(arg: &Arg) -> String {
    let mut meaning = text(arg.get_help());
    let values: Vec<String> =
        arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    if arg.get_action().takes_values() && !arg.is_hide_possible_values_set() && !values.is_empty() {
        let _ = write!(meaning, ": {}", values.join(", "));
    }
    if let [default] = arg.get_default_values()
        && arg.get_action().takes_values()
    {
        let _ = write!(meaning, " (default: `{}`)", default.to_string_lossy());
    }
    format!("| `{}` | {} |\n", cell(&spelling(arg)), cell(&meaning))
}

/// `-v, --verbose`, `--config <FILE>`, `<SHELL>`
fn spelling(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    let value = arg.get_action().takes_values().then(|| {
        let names = arg.get_value_names().unwrap_or_default();
        names.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" ")
    });
    [flags.join(", "), value.unwrap_or_default()].join(" ").trim().to_owned()
}

fn text(styled: Option<&clap::builder::StyledStr>) -> String {
    styled.map(ToString::to_string).unwrap_or_default()
}

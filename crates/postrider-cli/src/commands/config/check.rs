//! `postrider config check`

use clap::Args;
use serde_json::json;

use crate::config::{Problem, Settings};
use crate::context::{Context, exists};
use crate::exit::Exit;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider config check
  postrider config check --config shop.toml --json";

/// Report every mistake in the configuration, and check that its secrets are readable
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Check {}

impl Check {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let checked = context.settings_or_problems();
        #[cfg(feature = "schemas")]
        let checked = checked.and_then(|settings| settings.check_schemas().map(|()| settings));
        if context.output.is_json() {
            return report(context, checked);
        }
        let settings = checked?;
        let (path, _) = context.config_path();
        let from = if exists(&path) {
            path.display().to_string()
        } else {
            "no file; settings from environment and flags".into()
        };
        context.output.text(format!(
            "{from}: ok (outboxes: {}, sinks: {}, subscriptions: {})",
            settings.outboxes.len(),
            settings.sinks.len(),
            settings.subscriptions.len()
        ))
    }
}

/// With `--json` the problems are the data.
fn report(context: &Context, checked: Result<Settings, Vec<Problem>>) -> Result<(), Failure> {
    let problems = checked.err().unwrap_or_default();
    let exit = problems.first().map(|problem| Exit::from(problem.code));
    let problems: Vec<_> = problems.iter().map(Problem::to_json).collect();
    context.output.json(&json!({ "ok": problems.is_empty(), "problems": problems }))?;
    exit.map_or(Ok(()), |exit| Err(Failure::Reported(exit)))
}

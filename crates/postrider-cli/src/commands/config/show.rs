//! `postrider config show`

use clap::Args;
use serde::Serialize;

use crate::config::schema::{KeySpec, Section};
use crate::config::{Effective, Value, url};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Align, Table, View};

const EXAMPLES: &str = "Examples:
  postrider config show
  postrider config show --origin
  postrider config show --json --set relay.log=debug";

/// Show every effective value; secrets are masked
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Show {
    /// Show where each value comes from: default, file, env or flag
    #[arg(long)]
    origin: bool,
}

impl Show {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        context.output.data(&Shown::new(&context.effective()?, self.origin))
    }
}

/// Keys that have a value.
#[derive(Serialize)]
#[serde(transparent)]
struct Shown {
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    key: String,
    value: serde_json::Value,
    #[serde(skip)]
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

impl Shown {
    fn new(effective: &Effective, with_origin: bool) -> Self {
        let rows = effective.settings().iter().filter_map(|setting| {
            let value = setting.value.as_ref()?;
            let (value, text) = match endpoint(setting.spec, value) {
                Some(shown) => (shown.clone().into(), shown),
                None => (value.to_json(), value.to_string()),
            };
            Some(Row {
                key: setting.key(),
                value,
                text,
                origin: with_origin.then(|| setting.origin.to_string()),
            })
        });
        Self { rows: rows.collect() }
    }
}

/// The destination of a rule if it is the URL of an endpoint: its path may contain a token, as that of a sink may.
fn endpoint(spec: &KeySpec, value: &Value) -> Option<String> {
    let is_destination = spec.section == Section::Rule && spec.name == "destination";
    let Value::Text(text) = value else { return None };
    (is_destination && url::may_be_secret(text)).then(|| url::masked(text))
}

impl View for Shown {
    fn table(&self) -> Table {
        let mut columns = vec![("key", Align::Left), ("value", Align::Left)];
        columns.extend(self.rows.iter().any(|row| row.origin.is_some()).then_some(("origin", Align::Left)));
        let mut table = Table::new(columns, "no key is set");
        for row in &self.rows {
            table.row([&row.key, &row.text].into_iter().chain(&row.origin).cloned());
        }
        table
    }
}

//! `postrider migrate status`

use clap::Args;
use postrider::store::Schema;
use serde::Serialize;

use crate::commands::outbox_arg::OutboxArg;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};
use crate::output::{Align, Table, View};

const EXAMPLES: &str = "Examples:
  postrider migrate status
  postrider migrate status --json";

/// Show the schema version of each outbox
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Status {
    #[command(flatten)]
    outbox: OutboxArg,
}

impl Status {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        let outboxes = self.outbox.all_or_named(&settings)?;
        let rows = block_on(Threads::One, async {
            let mut rows = Vec::new();
            for (name, outbox) in outboxes {
                let schema = outbox.database.admin().schema().await?;
                let (outbox, database) = (name.to_owned(), outbox.database.to_string());
                rows.push(Row {
                    outbox,
                    database,
                    found: schema.found,
                    needed: schema.needed,
                    state: state(schema),
                });
            }
            Ok(rows)
        })?;
        context.output.data(&Rows { rows })
    }
}

fn state(schema: Schema) -> &'static str {
    match schema.found {
        0 => "missing",
        found if found < schema.needed => "older",
        found if found > schema.needed => "newer",
        _ => "ready",
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Rows {
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    outbox: String,
    database: String,
    found: i64,
    needed: i64,
    state: &'static str,
}

impl View for Rows {
    fn table(&self) -> Table {
        let columns = [
            ("outbox", Align::Left),
            ("database", Align::Left),
            ("found", Align::Right),
            ("needed", Align::Right),
            ("state", Align::Left),
        ];
        let mut table = Table::new(columns, "no outbox is configured");
        for Row { outbox, database, found, needed, state } in &self.rows {
            let (found, needed) = (found.to_string(), needed.to_string());
            table.row([outbox.clone(), database.clone(), found, needed, (*state).to_owned()]);
        }
        table
    }
}

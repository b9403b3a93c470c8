//! `postrider migrate print`

use clap::Args;

use super::with_arg::WithArg;
use crate::commands::outbox_arg::OutboxArg;
use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider migrate print > outbox.sql
  postrider migrate print --outbox shop | sqlite3 shop.db
  postrider migrate print --with handlers   layout eventlog";

/// Print the SQL that creates the tables, without running it
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Print {
    #[command(flatten)]
    outbox: OutboxArg,

    #[command(flatten)]
    with: WithArg,
}

impl Print {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        // Outboxes of one dialect have the same SQL; once is enough.
        let mut printed: Vec<String> = Vec::new();
        for (_, outbox) in self.outbox.all_or_named(&settings)? {
            let sql = outbox.database.admin().migration_sql(self.with.extras())?;
            if !printed.contains(&sql) {
                printed.push(sql);
            }
        }
        context.output.text(printed.join("\n"))
    }
}

//! `postrider migrate up`

use clap::Args;
use clap::builder::PossibleValuesParser;
use postrider::layout::RowLayout;
use postrider::store::Migrated;
use postrider::store::admin::MigrationReport;

use super::with_arg::WithArg;
use crate::commands::outbox_arg::OutboxArg;
use crate::context::Context;
use crate::database::Database;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};

const EXAMPLES: &str = "Examples:
  postrider migrate up
  postrider migrate up --outbox shop
  postrider migrate up --with views
  postrider migrate up --layout outbox_events --with aggregate-index
  postrider migrate up --layout eventlog --with handlers";

/// Create or update the tables
///
/// Safe to run repeatedly and while relays run: existing tables and data are kept. Each outbox is updated
/// completely or not at all; the first failure ends the command.
///
/// An existing table with a state per row is compared with its layout. Differences are reported; the table is
/// not modified.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Up {
    #[command(flatten)]
    outbox: OutboxArg,

    /// Layout to create [default: the layout in the configuration]
    #[arg(long, value_parser = PossibleValuesParser::new(RowLayout::ALL.iter().map(|layout| layout.name())))]
    layout: Option<String>,

    #[command(flatten)]
    with: WithArg,
}

impl Up {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        for (name, outbox) in self.outbox.all_or_named(&settings)? {
            let layout = self.layout.as_deref().and_then(RowLayout::from_name);
            let extras = self.with.extras();
            let migrated =
                block_on(Threads::One, async { Ok(outbox.database.admin().migrate(layout, extras).await?) })?;
            for line in report(&outbox.database, &migrated) {
                context.output.say(format!("{name}: {line}"));
            }
            if let Some(what) = outbox.retention.deletes(outbox.database.admin().row_table()) {
                context.output.say(format!("{name}: retention: {what}"));
            }
        }
        Ok(())
    }
}

/// What was created and what already existed, one line each.
fn report(database: &Database, report: &MigrationReport) -> Vec<String> {
    let MigrationReport { schema: Migrated { from, to }, row_tables, differences, .. } = report;
    let whose = if row_tables.is_some() { "Postrider's own tables" } else { "the tables" };
    let mut lines = vec![match from {
        0 => format!("created {whose} in {database}, schema {to}"),
        _ if from == to => format!("up to date, schema {to}"),
        _ => format!("updated {whose} in {database} from schema {from} to {to}"),
    }];
    match row_tables.as_deref() {
        Some([]) => lines.push("the outbox table already exists; it was not changed".to_owned()),
        Some(created) => lines.push(format!("created {}", created.join(", "))),
        None => {}
    }
    lines.extend(
        differences
            .iter()
            .map(|difference| format!("difference from the layout, not changed: {}", difference.what)),
    );
    lines
}

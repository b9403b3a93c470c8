//! `postrider migrate up`

use clap::{Args, ValueEnum};
use postrider::layout::RowLayout;

use crate::commands::outbox_arg::OutboxArg;
use crate::context::Context;
use crate::database::{Database, Extras, Made};
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};

const EXAMPLES: &str = "Examples:
  postrider migrate up
  postrider migrate up --outbox shop
  postrider migrate up --with views
  postrider migrate up --layout outbox_events --with aggregate-index";

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
    #[arg(long, value_enum)]
    layout: Option<Layout>,

    /// Also create optional parts of the layout
    #[arg(long, value_enum)]
    with: Vec<Optional>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Layout {
    EventOutbox,
    Outbox,
    OutboxEvents,
}

impl From<Layout> for RowLayout {
    fn from(layout: Layout) -> Self {
        match layout {
            Layout::EventOutbox => Self::EventOutbox,
            Layout::Outbox => Self::Outbox,
            Layout::OutboxEvents => Self::OutboxEvents,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Optional {
    /// The index over aggregate type and id of `outbox_events`
    AggregateIndex,
    /// The five views of `postrider`, or the six of `event_outbox` on an existing table (a new table has
    /// them)
    Views,
}

impl Up {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        for (name, outbox) in self.outbox.all_or_named(&settings)? {
            let layout = self.layout.map(RowLayout::from);
            let extras = Extras {
                aggregate_index: self.with.contains(&Optional::AggregateIndex),
                views: self.with.contains(&Optional::Views),
            };
            let made =
                block_on(Threads::One, async { Ok(outbox.database.migrate_as(layout, extras).await?) })?;
            for line in report(&*outbox.database, &made) {
                context.output.say(format!("{name}: {line}"));
            }
            if let Some(what) = outbox.retention.deletes(outbox.database.rows()) {
                context.output.say(format!("{name}: retention: {what}"));
            }
        }
        Ok(())
    }
}

/// What was created and what was left alone, one line each.
fn report(database: &dyn Database, made: &Made) -> Vec<String> {
    let Made { before, row_tables, differences } = made;
    let whose = if row_tables.is_some() { "Postrider's own tables" } else { "the tables" };
    let mut lines = vec![match before.found {
        0 => format!("created {whose} in {database}, schema {}", before.needed),
        found if found == before.needed => format!("up to date, schema {found}"),
        found => format!("updated {whose} in {database} from schema {found} to {}", before.needed),
    }];
    match row_tables.as_deref() {
        Some([]) => lines.push("the outbox table already exists; it was not changed".to_owned()),
        Some(created) => lines.push(format!("created {}", created.join(", "))),
        None => {}
    }
    lines.extend(differences.iter().map(|it| format!("difference from the layout, not changed: {it}")));
    lines
}

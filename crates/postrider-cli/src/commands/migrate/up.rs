//! `postrider migrate up`

use clap::{Args, ValueEnum};
use postrider::layout::RowLayout;

use crate::commands::chosen::Chosen;
use crate::context::Context;
use crate::database::Extras;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};

const EXAMPLES: &str = "Examples:
  postrider migrate up
  postrider migrate up --outbox shop
  postrider migrate up --with views
  postrider migrate up --layout outbox_events --with aggregate-index";

/// Bring the tables up to date
///
/// Safe to run again and beside running relays: what is there already stays. Each outbox is brought up to date as
/// a whole or not at all; the first that fails ends the command.
///
/// A table of another layout that is there already is compared with it. Differences are told, and nothing in it is
/// changed.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Up {
    #[command(flatten)]
    chosen: Chosen,

    /// Make the tables of this layout; without it, of the one in the configuration
    #[arg(long, value_enum)]
    layout: Option<Layout>,

    /// Make what is optional in the layout, too
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
    /// The five views of `postrider`; the six of `event_outbox`, on a table that is there already (a new one has them)
    Views,
}

impl Up {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        for (name, outbox) in self.chosen.some(&settings)? {
            let layout = self.layout.map(RowLayout::from);
            let extras = Extras {
                aggregate_index: self.with.contains(&Optional::AggregateIndex),
                views: self.with.contains(&Optional::Views),
            };
            let (before, differences) =
                block_on(Threads::One, async { Ok(outbox.database.migrate_as(layout, extras).await?) })?;
            let database = &outbox.database;
            context.output.say(match before.found {
                0 => format!("{name}: created the tables in {database}, schema {}", before.needed),
                found if found == before.needed => format!("{name}: up to date, schema {found}"),
                found => format!("{name}: brought {database} from schema {found} to {}", before.needed),
            });
            if let Some(what) = outbox.retention.deletes(database.rows()) {
                context.output.say(format!("{name}: retention: {what}"));
            }
            for difference in differences {
                context.output.say(format!("{name}: not as the layout has it, and left so: {difference}"));
            }
        }
        Ok(())
    }
}

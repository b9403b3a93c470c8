//! `postrider migrate up`

use clap::Args;

use crate::commands::chosen::Chosen;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};

const EXAMPLES: &str = "Examples:
  postrider migrate up
  postrider migrate up --outbox shop";

/// Bring the tables up to date
///
/// Safe to run again and beside running relays: what is there already stays. Each outbox is brought up to date as
/// a whole or not at all; the first that fails ends the command.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Up {
    #[command(flatten)]
    chosen: Chosen,
}

impl Up {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        for (name, outbox) in self.chosen.some(&settings)? {
            let before = block_on(Threads::One, async { Ok(outbox.database.migrate().await?) })?;
            let database = &outbox.database;
            context.output.say(match before.found {
                0 => format!("{name}: created the tables in {database}, schema {}", before.needed),
                found if found == before.needed => format!("{name}: up to date, schema {found}"),
                found => format!("{name}: brought {database} from schema {found} to {}", before.needed),
            });
        }
        Ok(())
    }
}

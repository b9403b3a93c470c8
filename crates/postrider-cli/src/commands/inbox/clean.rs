//! `postrider inbox clean`

use clap::Args;

use crate::commands::outbox_arg::OutboxArg;
use crate::config::settings::OutboxSettings;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};

/// Delete expired rows of the inbox
///
/// A relay does this by itself every minute. This command is for a database in which no relay runs, for example one that
/// only consumes: run it daily. Rows are deleted in small batches; stopping it loses nothing.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider inbox clean
  postrider inbox clean --outbox shop")]
pub(super) struct Clean {
    #[command(flatten)]
    outbox: OutboxArg,
}

impl Clean {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        for (name, outbox) in self.outbox.all_or_named(&settings)? {
            let deleted = block_on(Threads::One, clean(outbox))?;
            context.output.say(format!("{name}: deleted {deleted} expired row(s) of the inbox"));
        }
        Ok(())
    }
}

/// Deletes batch by batch, until one is not full.
async fn clean(outbox: &OutboxSettings) -> Result<u64, Failure> {
    let store = outbox.database.open().await?;
    let mut all = 0;
    let cleaned = loop {
        match store.purge_inbox(outbox.retention.inbox_purge()).await {
            Ok(purged) => {
                all += purged.deleted;
                if !purged.more {
                    break Ok(all);
                }
            }
            Err(error) => break Err(error.into()),
        }
    };
    store.close().await;
    cleaned
}

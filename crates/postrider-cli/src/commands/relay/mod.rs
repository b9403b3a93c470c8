//! `postrider relay`

mod drain;

use clap::Args;
use postrider::{Code, Error, Result};

use self::drain::Drain;
use crate::assemble::{Down, Stores, assemble};
use crate::config::Settings;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Interrupts, Threads, block_on};
use crate::log;

const EXAMPLES: &str = "Examples:
  postrider relay                         every subscription of postrider.toml, until Ctrl-C
  postrider relay --migrate               create or update the tables first
  postrider relay --drain                 deliver what is there and end, as scripts and tests like it
  postrider relay --fail-fast             end if a database is down, instead of waiting for it
  postrider relay --set relay.log=debug   with more in the log";

/// Carry events to their destinations until told to stop
///
/// The first Ctrl-C or SIGTERM finishes what is in flight, settles it and ends with exit code 0; the second ends
/// at once with 130, and what was in flight is delivered again at the next start. With `--drain` the first one ends with
/// 130 as well: not everything was delivered.
///
/// A database server that is down at the start is waited for, and that is logged once.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Relay {
    /// Create or update the tables first, as `migrate up` does
    #[arg(long)]
    migrate: bool,

    /// End when every event that was committed at the start is delivered; exit code 1 if one had to be given up
    #[arg(long)]
    drain: bool,

    /// End with exit code 3 if a database is down at the start, instead of waiting for it
    #[arg(long)]
    fail_fast: bool,
}

impl Relay {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        if settings.subscriptions.is_empty() {
            return Err(Error::new(Code::ConfigKeyMissing, "there is no subscription to serve")
                .hint("add a [subscription.NAME] with a sink; `postrider config init` shows one")
                .into());
        }
        log::start(&settings.relay, context.output);
        block_on(Threads::Many, self.serve(&settings))
    }

    async fn start(&self, settings: &Settings, stores: &mut Stores) -> Result<postrider::relay::Relay> {
        let down = if self.fail_fast { Down::Fail } else { Down::Wait };
        if self.migrate {
            for (name, outbox) in &settings.outboxes {
                down.ask(name, &*outbox.database, async || outbox.database.migrate().await).await?;
            }
        }
        assemble(settings, stores, down).await?.spawn().await
    }

    async fn serve(&self, settings: &Settings) -> Result<(), Failure> {
        let mut stores = Stores::default();
        let ended = self.serve_on(settings, &mut stores).await;
        // Who asked twice does not want to wait for anything.
        if !matches!(ended, Err(Failure::Interrupted)) {
            stores.close().await;
        }
        ended
    }

    async fn serve_on(&self, settings: &Settings, stores: &mut Stores) -> Result<(), Failure> {
        // Before anything is started: a signal must not find a relay that nobody stops.
        let mut interrupts = Interrupts::listen()?;
        let started = tokio::select! {
            biased;
            // Somebody who waits for a database may be told to stop, too.
            () = interrupts.next() => return if self.drain { Err(Failure::Interrupted) } else { Ok(()) },
            started = self.start(settings, stores) => started,
        };
        let mut relay = started?;
        let drain = Drain::new(settings, stores);
        let at_start = drain.look().await?;
        at_start.tell();
        let observer = relay.observer();

        let ended = tokio::select! {
            biased;
            // To be told to stop is the end of a relay, and not of a drain.
            () = interrupts.next() => if self.drain { Err(Failure::Interrupted) } else { Ok(()) },
            died = relay.died() => Err(died.into()),
            drained = drain.wait(&at_start, &observer), if self.drain => drained.map_err(Failure::from),
        };
        tracing::info!("stopping: finishing what is in flight; a signal now stops at once");
        tokio::select! {
            biased;
            () = interrupts.next_but_echo() => Err(Failure::Interrupted),
            stopped = relay.shutdown() => ended.and_then(|()| stopped.map_err(Failure::from)),
        }
    }
}

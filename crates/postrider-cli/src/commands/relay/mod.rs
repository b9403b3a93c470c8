//! `postrider relay`

mod drain;

use std::time::Duration;

use clap::Args;
use postrider::store::RowExtras;
use postrider::{Code, Error, Result};

use self::drain::Drain;
use crate::assemble::{Stores, WhenDown, assemble};
use crate::config::{Settings, duration};
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Interrupts, Threads, block_on};
use crate::log;
use crate::output::age;

const EXAMPLES: &str = "Examples:
  postrider relay                         every subscription of postrider.toml, until Ctrl-C
  postrider relay --migrate               create or update the tables first
  postrider relay --drain                 deliver the backlog and exit, for scripts and tests
  postrider relay --drain --timeout 1m    the same, with a time limit
  postrider relay --fail-fast             exit if a database is down, instead of waiting
  postrider relay --set relay.log=debug   with a more detailed log";

/// Deliver events to their destinations until stopped
///
/// The first Ctrl-C or SIGTERM finishes and settles the events in flight and exits with code 0; the second
/// exits immediately with code 130, and the events in flight are delivered again at the next start. With
/// `--drain` the first one also exits with 130, because not everything was delivered.
///
/// If a database server is down at startup, the relay waits for it and logs this once.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Relay {
    /// Create or update the tables first, as `migrate up` does
    #[arg(long)]
    migrate: bool,

    /// Exit when every event that was committed at startup is delivered; exit code 1 if one is dead or waits
    /// for an operator
    #[arg(long)]
    drain: bool,

    /// With --drain: exit with code 1 after this time, such as 30s or 5m, if events are still undelivered
    #[arg(long, value_name = "DURATION", requires = "drain", value_parser = parse_duration)]
    timeout: Option<Duration>,

    /// Exit with code 3 if a database is down at startup, instead of waiting for it
    #[arg(long)]
    fail_fast: bool,
}

fn parse_duration(text: &str) -> std::result::Result<Duration, &'static str> {
    duration::parse(text).ok_or("write it as 500ms, 30s, 5m or 1h")
}

impl Relay {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        if settings.subscriptions.is_empty() {
            return Err(Error::new(Code::ConfigKeyMissing, "no subscription is configured")
                .with_hint("add a [subscription.NAME] with a sink; `postrider config init` writes an example")
                .into());
        }
        log::start(&settings.relay, context.output);
        block_on(Threads::Many, self.serve(&settings))
    }

    async fn start(&self, settings: &Settings, stores: &mut Stores) -> Result<postrider::relay::Relay> {
        let when_down = if self.fail_fast { WhenDown::Fail } else { WhenDown::Wait };
        if self.migrate {
            for (name, outbox) in &settings.outboxes {
                when_down
                    .retry(name, &outbox.database, async || {
                        outbox.database.admin().migrate(None, RowExtras::default()).await
                    })
                    .await?;
            }
        }
        assemble(settings, stores, when_down).await?.spawn().await
    }

    async fn serve(&self, settings: &Settings) -> Result<(), Failure> {
        let mut stores = Stores::default();
        let ended = self.serve_on(settings, &mut stores).await;
        // After a second signal, exit without waiting.
        if !matches!(ended, Err(Failure::Interrupted)) {
            stores.close().await;
        }
        ended
    }

    /// Returns when the time limit of a drain is over; without a limit, never.
    async fn time_out(&self) -> Error {
        let Some(timeout) = self.timeout else { return std::future::pending().await };
        tokio::time::sleep(timeout).await;
        let what = format!("events are still undelivered after {}", age(timeout));
        Error::new(Code::Undelivered, what)
            .with_effect("they stay in the outbox; delivered events are settled")
            .with_hint("see the log above and `postrider status`; run the command again to continue")
    }

    async fn serve_on(&self, settings: &Settings, stores: &mut Stores) -> Result<(), Failure> {
        // Before anything is started, so that every signal stops the relay cleanly.
        let mut interrupts = Interrupts::listen()?;
        let time_out = self.time_out();
        tokio::pin!(time_out);
        let started = tokio::select! {
            biased;
            // A signal also ends the wait for a database.
            () = interrupts.next() => return if self.drain { Err(Failure::Interrupted) } else { Ok(()) },
            late = &mut time_out, if self.drain => return Err(late.into()),
            started = self.start(settings, stores) => started,
        };
        let mut relay = started?;
        let drain = Drain::new(settings, stores);
        let at_start = drain.read_overviews().await?;
        at_start.log_served();
        let handle = relay.handle();

        let ended = tokio::select! {
            biased;
            // A signal is the normal end of a relay, but interrupts a drain.
            () = interrupts.next() => if self.drain { Err(Failure::Interrupted) } else { Ok(()) },
            error = relay.panicked() => Err(error.into()),
            drained = drain.wait(&at_start, &handle), if self.drain => drained.map_err(Failure::from),
            late = &mut time_out, if self.drain => Err(late.into()),
        };
        let is_told_to = matches!(ended, Ok(()) | Err(Failure::Interrupted)) && !self.drain;
        let again = if is_told_to { "; a second signal stops immediately" } else { "" };
        tracing::info!("stopping: finishing events in flight{again}");
        let ended = tokio::select! {
            biased;
            () = interrupts.next_but_echo() => return Err(Failure::Interrupted),
            stopped = relay.shutdown() => ended.and_then(|()| stopped.map_err(Failure::from)),
        };
        if self.drain
            && let Some(summary) = drain.summary(&handle).await
        {
            tracing::info!("{summary}");
        }
        ended
    }
}

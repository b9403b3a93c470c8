//! `postrider relay`

mod drain;
mod outboxes;
mod reload;

use std::time::Duration;

use clap::Args;
use postrider::{Code, Error, Result};

use self::drain::Drain;
use self::outboxes::Outboxes;
use self::reload::Running;
use crate::assemble::{Opening, Stores, WhenDown};
use crate::config::duration;
use crate::context::Context;
use crate::failure::Failure;
use crate::http::{Listener, Recorder};
use crate::interrupt::{Interrupts, Request, Threads, block_on};
use crate::log;
use crate::output::age;
use crate::traces::Traces;

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
/// If a database server is down at startup, the relay waits for it and logs this once. With several outboxes or
/// shards, the others are served meanwhile.
///
/// SIGHUP reads the configuration again and serves the outboxes and shards that are new; the others continue. Any
/// other change is refused with an error in the log. If the terminal is closed, the relay stops instead. A relay that is
/// stopping ignores SIGHUP.
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

    /// Serve subscriptions that a program has registered as its handlers: their sinks get the events, and the
    /// handlers none. Without it such a subscription is refused
    #[arg(long)]
    replace_handlers: bool,
}

fn parse_duration(text: &str) -> std::result::Result<Duration, &'static str> {
    duration::parse(text).ok_or("write it as 500ms, 30s, 5m or 1h")
}

impl Relay {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let running = Running::read(context)?;
        let settings = running.settings();
        if settings.subscriptions.is_empty() {
            return Err(Error::new(Code::ConfigKeyMissing, "no subscription is configured")
                .with_hint("add a [subscription.NAME] with a sink; `postrider config init` writes an example")
                .into());
        }
        // Outside of the runtime: its client blocks.
        let traces = settings
            .traces
            .as_ref()
            .map(|of| Traces::open(of, settings.relay.name.as_deref()))
            .transpose()?;
        log::start(&settings.relay, traces.as_ref(), context.output);
        let ended = block_on(Threads::Many, self.serve(context, running));
        // After a second signal, exit without waiting.
        if let Some(traces) = traces.filter(|_| !matches!(ended, Err(Failure::Interrupted))) {
            traces.close();
        }
        ended
    }

    async fn serve(&self, context: &Context, running: Running) -> Result<(), Failure> {
        let stores = Stores::default();
        let ended = self.serve_on(context, running, &stores).await;
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

    /// The next request. A drain is not a service: every signal ends it.
    async fn next_request(&self, interrupts: &mut Interrupts) -> Request {
        if !self.drain {
            return interrupts.next_request().await;
        }
        interrupts.next().await;
        Request::Stop
    }

    async fn serve_on(
        &self,
        context: &Context,
        mut running: Running,
        stores: &Stores,
    ) -> Result<(), Failure> {
        // Before anything is started, so that every signal stops the relay cleanly.
        let mut interrupts = Interrupts::listen()?;
        let time_out = self.time_out();
        tokio::pin!(time_out);
        let settings = running.settings().clone();
        // Before the relay starts, so that it answers while the relay waits for a database.
        let http = match settings.http.listen {
            Some(address) => Some(Listener::open(address, &settings.http, Recorder::install()?).await?),
            None => None,
        };
        let when_down = if self.fail_fast { WhenDown::Fail } else { WhenDown::Wait };
        let mut outboxes =
            Outboxes::new(Opening::new(when_down, self.migrate), stores, self.replace_handlers);
        let mut reload_due = false;
        let mut relay = {
            let starting = outboxes.start(&settings);
            tokio::pin!(starting);
            loop {
                tokio::select! {
                    biased;
                    // A signal also ends the wait for a database.
                    request = self.next_request(&mut interrupts) => match request {
                        Request::Stop => return if self.drain { Err(Failure::Interrupted) } else { Ok(()) },
                        Request::Reload => reload_due = true,
                    },
                    late = &mut time_out, if self.drain => return Err(late.into()),
                    started = &mut starting => break started?,
                }
            }
        };
        let handle = relay.handle();
        if let Some(http) = &http {
            http.relay(handle.clone());
        }
        let drain = Drain::new(&settings, stores);
        let drained = drain.run(&handle, self.drain, self.fail_fast);
        tokio::pin!(drained);
        if reload_due {
            outboxes.open(&running.reload(context), running.settings());
        }

        let ended = loop {
            tokio::select! {
                biased;
                // A signal is the normal end of a relay, but interrupts a drain.
                request = self.next_request(&mut interrupts) => match request {
                    Request::Stop if self.drain => break Err(Failure::Interrupted),
                    Request::Stop => break Ok(()),
                    Request::Reload => outboxes.open(&running.reload(context), running.settings()),
                },
                error = relay.panicked() => break Err(error.into()),
                late = &mut time_out, if self.drain => break Err(late.into()),
                drained = &mut drained => break drained.map_err(Failure::from),
                () = outboxes.serve_next(&handle, running.settings()) => {}
            }
        };
        let is_told_to = matches!(ended, Ok(()) | Err(Failure::Interrupted)) && !self.drain;
        let again = if is_told_to { "; a second signal stops immediately" } else { "" };
        tracing::info!("stopping: finishing events in flight{again}");
        let ended = tokio::select! {
            biased;
            () = interrupts.next_but_echo() => return Err(Failure::Interrupted),
            stopped = relay.shutdown() => ended.and_then(|()| stopped.map_err(Failure::from)),
        };
        let ended = match ended {
            Ok(()) if self.drain => drain.refuse_halted().await.map_err(Failure::from),
            ended => ended,
        };
        if self.drain
            && let Some(summary) = drain.summary(&handle).await
        {
            tracing::info!("{summary}");
        }
        ended
    }
}

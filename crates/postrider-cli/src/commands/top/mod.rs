//! `postrider top`

mod draw;
mod list;
mod screen;

use std::io::{self, IsTerminal};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use clap::Args;
use postrider::{Error, Timestamp};
use ratatui::crossterm::event::{self, KeyEventKind};

use self::list::{List, Step};
use self::screen::Screen;
use super::outbox_arg::OutboxArg;
use super::status::{Report, parse_interval, read};
use crate::config::Settings;
use crate::config::settings::OutboxSettings;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Interrupts, Threads, block_on};

const EXAMPLES: &str = "Examples:
  postrider top                   every subscription, until q
  postrider top --interval 500ms  more often
  postrider top --once --json     one report, for programs
  postrider top | tee log         without a terminal: lines";

/// The longest time until a key or a new report is noticed.
const LOOK: Duration = Duration::from_millis(50);

/// Watch the subscriptions in the terminal, like `top`
///
/// Shows what `status` shows, again and again. Keys: j and k or the arrows move, g and G go to the first and last, 1 to 9
/// sort by a column (again: in the other direction), f or / filters by name, state or error, Enter shows one subscription, ? shows
/// the keys, Esc goes back, q ends. Without a terminal it prints lines instead.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Top {
    #[command(flatten)]
    outbox: OutboxArg,

    /// Print one report and exit
    #[arg(long)]
    once: bool,

    /// The time between two reports, such as 500ms or 10s
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_interval)]
    interval: Duration,
}

/// What the reader of the databases found.
type Reading = Result<(Report, Vec<Error>), Failure>;

impl Top {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        let outboxes = self.outbox.all_or_named(&settings)?;
        if self.once {
            let (report, failed) = read(&outboxes, &settings)?;
            context.output.data(&report)?;
            return if failed.is_empty() { Ok(()) } else { Err(Failure::Errors(failed)) };
        }
        let outboxes = outboxes.into_iter().map(|(name, of)| (name.to_owned(), of.clone())).collect();
        let readings = self.readings(outboxes, settings.clone());
        let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
        match is_terminal && !context.output.is_json() {
            true => watch(&readings),
            false => lines(context, &readings),
        }
    }

    /// Reads the databases in a thread of its own: a slow one delays no key. It ends with the process.
    fn readings(&self, outboxes: Vec<(String, OutboxSettings)>, settings: Settings) -> Receiver<Reading> {
        let (sender, receiver) = channel();
        let interval = self.interval;
        std::thread::spawn(move || {
            let outboxes: Vec<(&str, &OutboxSettings)> =
                outboxes.iter().map(|(name, of)| (name.as_str(), of)).collect();
            let (_waits, wait) = channel::<()>();
            while sender.send(read(&outboxes, &settings)).is_ok() {
                // Never arrives: a pause.
                let _ = wait.recv_timeout(interval);
            }
        });
        receiver
    }
}

/// A signal, once: in this mode Ctrl-C is a key, but other processes send signals.
fn signals() -> Receiver<()> {
    let (sender, receiver) = channel();
    let (ready, listening) = channel();
    std::thread::spawn(move || {
        let waited = block_on(Threads::One, async {
            let mut interrupts = Interrupts::listen()?;
            let _ = ready.send(());
            interrupts.next().await;
            Ok(())
        });
        // Without signal handlers a signal ends the process.
        if waited.is_ok() {
            let _ = sender.send(());
        }
    });
    // An error if there are no handlers: then it goes on without them.
    let _ = listening.recv();
    receiver
}

/// Draws until the user has seen enough. The terminal is restored even after a panic.
fn watch(readings: &Receiver<Reading>) -> Result<(), Failure> {
    let signals = signals();
    let mut screen = Screen::open()?;
    let mut list = List::default();
    let mut is_new = true;
    loop {
        while let Ok(reading) = readings.try_recv() {
            match reading {
                Ok((report, failed)) => {
                    list.set(report.lines(), failed.iter().map(Error::one_line).collect())
                }
                Err(Failure::Errors(failed)) => list.fail(failed.iter().map(Error::one_line).collect()),
                Err(failure) => return Err(failure),
            }
            is_new = true;
        }
        if signals.try_recv().is_ok() {
            return Ok(());
        }
        if is_new {
            screen.draw(|frame| draw::draw(frame, &mut list, Timestamp::now()))?;
        }
        is_new = event::poll(LOOK).map_err(screen::failed)?;
        if is_new {
            let read = event::read().map_err(screen::failed)?;
            let key = read.as_key_event().filter(|key| key.kind != KeyEventKind::Release);
            if key.is_some_and(|key| list.press(key) == Step::End) {
                return Ok(());
            }
        }
    }
}

/// Prints reports one after another, until Ctrl-C.
fn lines(context: &Context, readings: &Receiver<Reading>) -> Result<(), Failure> {
    loop {
        let failed = match readings.recv_timeout(Duration::from_secs(3_600)) {
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Ok(Err(Failure::Errors(failed))) => failed,
            Ok(Err(failure)) => return Err(failure),
            Ok(Ok((report, failed))) => {
                if context.output.is_json() {
                    context.output.json_line(&report)?;
                } else {
                    for line in report.lines() {
                        context.output.text(format_args!("{} {}", Timestamp::now(), line.text()))?;
                    }
                }
                failed
            }
        };
        if !failed.is_empty() {
            context.output.failure(&Failure::Errors(failed));
        }
    }
}

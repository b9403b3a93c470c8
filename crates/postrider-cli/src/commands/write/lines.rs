//! Events from standard input, a batch per transaction.

use std::fmt::Write;
use std::io::{self, IsTerminal};

use postrider::store::admin::EventWriter;
use postrider::{Code, Error, Event, Limits, Outbox, Result, Written};
use serde_json::json;

use super::line;
use super::stdin::{self, Line};
use crate::config::settings::OutboxSettings;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::output::{Output, Progress, count};

/// A batch with more payload than this is written early: limits memory and the time that other writers wait for the
/// lock.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Writes every line of standard input.
///
/// # Errors
/// That of the first invalid line, or of the first batch that could not be written.
/// [`Failure::Interrupted`] on Ctrl-C. In all cases, earlier batches stay committed and are reported.
pub(super) async fn write(
    output: Output,
    settings: &OutboxSettings,
    batch_events_max: usize,
) -> Result<(), Failure> {
    let mut interrupts = Interrupts::listen()?;
    let mut batch = Batch::new(output, settings, batch_events_max).await?;
    if io::stdin().is_terminal() {
        output.say("reading events, one JSON object per line; Ctrl-D ends");
    }
    let mut lines = stdin::lines(line_bytes_max(&settings.limits))?;
    let ended = loop {
        tokio::select! {
            biased;
            () = interrupts.next() => break Err(Failure::Interrupted),
            line = lines.recv() => match line {
                Some(line) => if let Err(failure) = batch.take(line).await { break Err(failure) },
                None => break batch.finish().await,
            },
        }
    };
    batch.reported(ended)
}

/// Base64 makes a payload a third longer; the rest of a line is small in comparison.
fn line_bytes_max(limits: &Limits) -> usize {
    limits.payload_bytes_max.saturating_mul(2).saturating_add(1024 * 1024)
}

/// A progress bar if the input is a file, whose size is known.
fn progress(output: Output) -> Progress {
    match stdin::file_bytes() {
        Some(bytes) => {
            let template = "{bar:30} {percent:>3}%  {msg} events  {elapsed}, {eta} left";
            Progress::new(output, Some(bytes), template)
        }
        None => Progress::new(output, None, "{spinner} {msg} events  {elapsed}"),
    }
}

/// Prints id and position of each event, one line each; as JSON with `--json`.
///
/// # Errors
/// As [`Output::text`].
pub(super) fn print(output: Output, written: &[Written]) -> Result<(), Failure> {
    let mut text = String::new();
    for Written { id, position, .. } in written {
        let _ = match output.is_json() {
            true => writeln!(text, "{}", json!({ "id": id, "position": position.get() })),
            false => writeln!(text, "id={id} position={position}"),
        };
    }
    output.text(text)
}

/// Events that are not written yet. No transaction is open while it waits for more input.
struct Batch {
    output: Output,
    outbox: Outbox,
    writer: Box<dyn EventWriter>,
    progress: Progress,
    events: Vec<Event>,
    events_max: usize,
    bytes: usize,
    bytes_read: u64,
    committed: u64,
    /// The last line whose event was committed.
    committed_line: u64,
    last_line: u64,
}

impl Batch {
    async fn new(output: Output, settings: &OutboxSettings, events_max: usize) -> Result<Self> {
        Ok(Self {
            output,
            outbox: settings.outbox(),
            writer: settings.writer().await?,
            progress: progress(output),
            events: Vec::new(),
            events_max,
            bytes: 0,
            bytes_read: 0,
            committed: 0,
            committed_line: 0,
            last_line: 0,
        })
    }

    /// Adds the event of a line, and writes the batch if it is full.
    async fn take(&mut self, line: Result<Line>) -> Result<(), Failure> {
        let Line { number, bytes, bytes_read } = line.map_err(|error| self.with_effect(error))?;
        let event = line::event(number, &bytes)
            .and_then(|event| self.outbox.check(&event, format_args!("line {number}")).map(|()| event))
            .map_err(|error| self.with_effect(error))?;
        self.last_line = number;
        self.bytes_read = bytes_read;
        self.bytes += event.payload.len();
        self.events.push(event);
        if self.events.len() >= self.events_max || self.bytes >= BATCH_BYTES_MAX {
            self.commit().await?;
        }
        Ok(())
    }

    /// Writes the last batch at the end of the input.
    async fn finish(&mut self) -> Result<(), Failure> {
        if !self.events.is_empty() {
            return self.commit().await;
        }
        if self.committed > 0 {
            return Ok(());
        }
        Err(Error::new(Code::InputMissing, "standard input is empty")
            .with_hint("pass one JSON object per line: postrider write --lines < events.jsonl")
            .into())
    }

    async fn commit(&mut self) -> Result<(), Failure> {
        let events = std::mem::take(&mut self.events);
        let (first, last, count) = (self.committed_line + 1, self.last_line, events.len() as u64);
        let written = self.writer.write(events).await.map_err(|error| {
            let what = format!("the batch of lines {first} to {last}");
            match error.code() {
                // The error itself describes the effect on the data.
                Code::OutcomeUnknown => error.within(&what),
                _ => self.with_effect(error.within(&format!("{what} was not written"))),
            }
        })?;
        self.bytes = 0;
        self.committed += count;
        self.committed_line = last;
        self.progress.set(self.bytes_read, self.committed.to_string());
        print(self.output, &written)
    }

    /// The effect of the error on all events read so far.
    fn with_effect(&self, error: Error) -> Error {
        error.with_effect(match self.committed_line {
            0 => "nothing was written".to_owned(),
            line => {
                let events = count(self.committed, "event");
                format!("lines 1 to {line} are committed ({events}); later lines are not")
            }
        })
    }

    /// Adds the number of committed events, unless the error contains it.
    fn reported(self, ended: Result<(), Failure>) -> Result<(), Failure> {
        let Self { output, progress, committed, committed_line, .. } = self;
        drop(progress);
        let unsaid = |errors: &[Error]| {
            errors.iter().any(|error| matches!(error.code(), Code::OutputFailed | Code::OutcomeUnknown))
        };
        let unknown = |errors: &[Error]| errors.iter().any(|error| error.code() == Code::OutcomeUnknown);
        match &ended {
            Ok(()) => output.say(format!("committed {}", count(committed, "event"))),
            Err(Failure::Errors(errors)) if !unsaid(errors) => {}
            Err(Failure::Errors(errors)) if unknown(errors) && committed == 0 => {
                output.say("no earlier batch was committed");
            }
            Err(Failure::Errors(_) | Failure::Interrupted) if committed == 0 => {
                output.say("nothing is committed")
            }
            Err(Failure::Errors(_) | Failure::Interrupted) => {
                let events = count(committed, "event");
                output.say(format!("committed {events}: lines 1 to {committed_line}"));
            }
            Err(_) => {}
        }
        ended
    }
}

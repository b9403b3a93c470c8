//! `postrider write`

mod flags;
mod line;
mod lines;
mod stdin;

use clap::Args;

use self::flags::EventFlags;
pub(super) use self::flags::aggregate;
use super::outbox_arg::OutboxArg;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};

const EXAMPLES: &str = "Examples:
  postrider write --type order.placed --aggregate Order:42 --payload '{\"total\": 12}'
  postrider write --type photo.taken --key cam-1 --header content-type=image/png --payload @photo.png
  postrider write --type OrderPlaced --aggregate Order:42 --namespace shop --action PlaceOrder --params '{\"cart\": 7}'
  postrider write --lines < events.jsonl
  echo '{\"type\": \"order.paid\", \"aggregate\": {\"type\": \"Order\", \"id\": \"42\"}, \"payload\": {}}' | postrider write --lines";

/// Write events to an outbox
///
/// Prints the id and position of every event that is committed. With --lines each line of standard input is a JSON
/// object with the fields of an event: type, payload (any JSON, kept byte for byte) or payload_base64, and if wanted
/// id, aggregate {type, id}, key, headers, time, topic, max_attempts, expires_at, namespace, producer, action. The
/// lines a file sink writes can be read back; their position is ignored.
///
/// Lines are written in batches, each in one transaction. A line that is not a valid event ends the command;
/// earlier batches stay committed. So does Ctrl-C, with exit code 130.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Write {
    #[command(flatten)]
    outbox: OutboxArg,

    #[command(flatten)]
    event: EventFlags,

    /// Read events from standard input, one JSON object per line
    #[arg(long, help_heading = "Many events")]
    lines: bool,

    /// Lines per transaction; fewer where payloads are large
    #[arg(long, value_name = "N", help_heading = "Many events", conflicts_with = "event_type", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
}

impl Write {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        let (_, outbox) = self.outbox.one(&settings)?;
        if self.lines {
            let batch_events_max = (self.batch as usize).min(outbox.limits.events_per_call_max);
            return block_on(Threads::One, lines::write(context.output, outbox, batch_events_max));
        }
        let event = self.event.event(&outbox.limits)?;
        outbox.outbox().check(&event, "the event")?;
        let written = block_on(Threads::One, async { Ok(outbox.writer().await?.write(vec![event]).await?) })?;
        lines::print(context.output, &written)
    }
}

//! `postrider events tail`

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use clap::Args;
use postrider::store::{EventFilter, ListedEvent};
use postrider::{Aggregate, Clock, SystemClock, Timestamp};

use super::list::{shortened, time};
use crate::commands::outbox_arg::OutboxArg;
use crate::commands::write::aggregate;
use crate::context::Context;
use crate::database::Database;
use crate::failure::Failure;
use crate::interrupt::{Interrupts, Threads, block_on};

/// Events per query. If more are committed between two queries, the older ones are not shown, and the command says so.
const PAGE_EVENTS: usize = 1_000;

/// A transaction that commits within this time of its events is seen.
const OVERLAP: Duration = Duration::from_secs(60);

/// Rows that are remembered, so that none is shown twice.
const SEEN_MAX: usize = 20_000;

/// Show events as they are committed, oldest first, until Ctrl-C
///
/// One line per event, with --json one JSON object per line. It reads the database once per interval and changes nothing. An
/// event whose transaction stays open for longer than a minute may not be shown.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider events tail
  postrider events tail --type order.placed --payload --json
  postrider events tail --since 10m --limit 100")]
pub(super) struct Tail {
    #[command(flatten)]
    outbox: OutboxArg,
    /// Only this aggregate
    #[arg(long, value_name = "TYPE:ID", value_parser = aggregate)]
    aggregate: Option<Aggregate>,
    /// Only this type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only this ordering key, in the default layout
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Begin with events created at or after this time (RFC 3339), or no longer ago than this (10m); default: now
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Timestamp>,
    /// Show payloads
    #[arg(long)]
    payload: bool,
    /// Stop after this many events
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Time between two queries, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(100..=3_600_000))]
    interval: u64,
}

impl Tail {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        let (_, outbox) = self.outbox.one(&settings)?;
        block_on(Threads::One, async {
            let mut interrupts = Interrupts::listen()?;
            tokio::select! {
                ended = self.follow(context, &outbox.database) => ended,
                () = interrupts.next() => Ok(()),
            }
        })
    }

    async fn follow(&self, context: &Context, database: &Database) -> Result<(), Failure> {
        let mut seen = Seen::default();
        let mut since = self.since.unwrap_or_else(now);
        let mut left = self.limit.unwrap_or(u64::MAX);
        loop {
            let asked_at = now();
            let filter = EventFilter::default()
                .aggregate(self.aggregate.clone())
                .event_type(self.event_type.clone())
                .key(self.key.clone())
                .since(Some(since))
                .with_payload(self.payload)
                .events_max(PAGE_EVENTS);
            let events = database.admin().list(&filter).await?;
            let is_full = events.len() == PAGE_EVENTS;
            let mut new: Vec<ListedEvent> =
                events.into_iter().filter(|event| seen.is_new(&event.row)).collect();
            if is_full && new.len() == PAGE_EVENTS {
                context
                    .output
                    .say("more events were committed than can be shown; some older ones are left out");
            }
            new.reverse();
            for event in new.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
                print(context, event)?;
            }
            left = left.saturating_sub(new.len() as u64);
            if left == 0 {
                return Ok(());
            }
            since = since.max(earlier(asked_at));
            tokio::time::sleep(Duration::from_millis(self.interval)).await;
        }
    }
}

fn now() -> Timestamp {
    SystemClock::new().now().wall
}

/// The time from which the next query reads: events of transactions that commit late are read again, and shown once.
fn earlier(time: Timestamp) -> Timestamp {
    let micros = i64::try_from(OVERLAP.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(time.as_micros().saturating_sub(micros))
}

fn print(context: &Context, event: &ListedEvent) -> Result<(), Failure> {
    if context.output.is_json() {
        return context.output.text(serde_json::to_string(event).unwrap_or_default());
    }
    let aggregate = event.aggregate_type.iter().zip(&event.aggregate_id).next();
    let aggregate = aggregate.map(|(kind, id)| format!("{kind}:{id}")).unwrap_or_default();
    let payload = event.payload.as_deref().map(shortened).unwrap_or_default();
    let time = event.time.as_deref().unwrap_or("-");
    let line = format!("{} {time} {} {aggregate} {payload}", event.row, event.event_type);
    context.output.text(line.replace(char::is_control, " ").trim_end())
}

/// The rows that were shown last.
#[derive(Debug, Default)]
struct Seen {
    rows: HashSet<String>,
    order: VecDeque<String>,
}

impl Seen {
    fn is_new(&mut self, row: &str) -> bool {
        if !self.rows.insert(row.to_owned()) {
            return false;
        }
        self.order.push_back(row.to_owned());
        if self.order.len() > SEEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.rows.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_new_once_and_only_the_last_rows_are_remembered() {
        let mut seen = Seen::default();
        assert!(seen.is_new("0") && !seen.is_new("0"));
        for row in 1..=SEEN_MAX {
            assert!(seen.is_new(&row.to_string()));
        }
        assert_eq!(seen.rows.len(), SEEN_MAX);
        assert!(seen.is_new("0"), "it was forgotten");
    }
}

//! `postrider events list`

use clap::Args;
use postrider::store::{EventFilter, ListedEvent};
use postrider::{Aggregate, Clock, SystemClock, Timestamp};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::commands::outbox_arg::OutboxArg;
use crate::commands::write::aggregate;
use crate::config::duration;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};
use crate::output::{Align, Table, View};

const EXAMPLES: &str = "Examples:
  postrider events list --aggregate Order:42
  postrider events list --type order.placed --since 2h
  postrider events list --action 0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c77   layout eventlog
  postrider events list --since 2026-01-01T00:00:00Z --until 2026-01-02T00:00:00Z --json
  postrider events list --contains '{\"customer\": 7}' --limit 10 --payload
  postrider events list --key Order/42 --before 4711        the next page";

/// Maximum number of characters of a payload in the table.
const PAYLOAD_SHOWN: usize = 80;

/// Show events, newest first
///
/// All filters must match. Payloads are shown only with --payload. Reads the database and changes nothing; delivered events are listed until
/// retention deletes them. A filter uses an index if the layout has one; see --plan.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct List {
    #[command(flatten)]
    outbox: OutboxArg,
    /// Only this aggregate
    #[arg(long, value_name = "TYPE:ID", value_parser = aggregate)]
    aggregate: Option<Aggregate>,
    /// Only this type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only this ordering key, for example Order/42, in the default layout
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Only this action, in the default layout and layout eventlog
    #[arg(long, value_name = "UUID")]
    action: Option<Uuid>,
    /// Created at or after this time (RFC 3339), or no longer ago than this (2h)
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Timestamp>,
    /// Created at or before this time (RFC 3339), or at least this long ago (2h)
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<Timestamp>,
    /// JSON payload contains all of this
    #[arg(long, value_name = "JSON", value_parser = json)]
    contains: Option<Value>,
    /// In this state, if rows have a state; with layout eventlog: waiting, fanned out, or no event
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Only events before this position: the last one of the previous page, in the default layout
    #[arg(long, value_name = "POSITION")]
    before: Option<String>,
    /// Show payloads
    #[arg(long)]
    payload: bool,
    /// Maximum number of events
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Show the query plan instead
    #[arg(long)]
    plan: bool,
}

impl List {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        let (_, outbox) = self.outbox.one(&settings)?;
        let filter = EventFilter::default()
            .aggregate(self.aggregate.clone())
            .event_type(self.event_type.clone())
            .key(self.key.clone())
            .action(self.action)
            .since(self.since)
            .until(self.until)
            .contains(self.contains.clone())
            .state(self.state.clone())
            .before(self.before.clone())
            .with_payload(self.payload)
            .events_max(self.limit as usize);
        if self.plan {
            let lines =
                block_on(Threads::One, async { Ok(outbox.database.admin().list_plan(&filter).await?) })?;
            return context.output.data(&Plan { lines });
        }
        let events = block_on(Threads::One, async { Ok(outbox.database.admin().list(&filter).await?) })?;
        context.output.data(&Found { events, has_payloads: self.payload })
    }
}

/// A time, or an age.
pub(in crate::commands) fn time(text: &str) -> Result<Timestamp, &'static str> {
    if let Some(ago) = duration::parse(text) {
        let micros = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
        return Ok(Timestamp::from_micros(SystemClock::new().now().wall.as_micros().saturating_sub(micros)));
    }
    text.parse().map_err(|_| "use a time such as 2026-01-31T12:00:00Z, or an age such as 30m, 2h or 7d")
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("this is not valid JSON: {error}"))
}

#[derive(Serialize)]
#[serde(transparent)]
struct Found {
    events: Vec<ListedEvent>,
    #[serde(skip)]
    has_payloads: bool,
}

impl View for Found {
    fn table(&self) -> Table {
        let mut columns = vec![
            ("row", Align::Right),
            ("time", Align::Left),
            ("type", Align::Left),
            ("aggregate", Align::Left),
            ("state", Align::Left),
            ("attempts", Align::Right),
        ];
        if self.has_payloads {
            columns.push(("payload", Align::Left));
        }
        let mut table = Table::new(columns, "no event matches");
        for event in &self.events {
            let aggregate = event.aggregate_type.iter().zip(&event.aggregate_id).next();
            let cells = [
                event.row.clone(),
                event.time.clone().unwrap_or_else(|| "-".to_owned()),
                event.event_type.clone(),
                aggregate.map(|(kind, id)| format!("{kind}:{id}")).unwrap_or_default(),
                event.state.clone().unwrap_or_default(),
                event.attempts.map(|attempts| attempts.to_string()).unwrap_or_default(),
            ];
            let payload = self.has_payloads.then(|| shortened(event.payload.as_deref().unwrap_or_default()));
            table.row(cells.into_iter().chain(payload));
        }
        table
    }
}

/// The beginning of a payload.
pub(super) fn shortened(payload: &str) -> String {
    let mut shown: String = payload.chars().take(PAYLOAD_SHOWN).collect();
    if shown.len() < payload.len() {
        shown.push_str("...");
    }
    shown
}

#[derive(Serialize)]
#[serde(transparent)]
struct Plan {
    lines: Vec<String>,
}

impl View for Plan {
    fn table(&self) -> Table {
        let mut table = Table::new([("plan", Align::Left)], "the database returned no plan");
        self.lines.iter().for_each(|line| table.row([line.clone()]));
        table
    }
}

//! The output of `status --by`: event counts, one row per group.

use std::time::Duration;

use postrider::store::{CountGroup, Distribution, EventCounts};
use serde::{Serialize, Serializer};

use super::By;
use crate::output::{Align, Table, View, age};

/// The groups of some outboxes.
pub(super) struct GroupedCounts {
    by: By,
    rows: Vec<Row>,
}

/// Every row has all keys; those that were not requested or are not known are null.
#[derive(Serialize)]
struct Row {
    outbox: String,
    subscription: Option<String>,
    #[serde(rename = "type")]
    event_type: Option<String>,
    producer: Option<String>,
    hour: Option<String>,
    total: u64,
    pending: u64,
    failed: u64,
    /// Delivered or filtered.
    done: u64,
    due: u64,
    attempts_avg: Option<f64>,
    attempts_max: Option<u64>,
    /// The age of events that are not done.
    lag_seconds: Option<Seconds>,
    /// From creation to delivery.
    latency_seconds: Option<Seconds>,
}

#[derive(Serialize, Clone, Copy)]
struct Seconds {
    avg: f64,
    p50: f64,
    p95: f64,
    max: f64,
}

impl From<Distribution> for Seconds {
    fn from(Distribution { avg, p50, p95, max, .. }: Distribution) -> Self {
        Self { avg, p50, p95, max }
    }
}

impl GroupedCounts {
    pub(super) fn new(by: By) -> Self {
        Self { by, rows: Vec::new() }
    }

    pub(super) fn add(&mut self, outbox: &str, event_counts: EventCounts) {
        self.rows.extend(event_counts.groups.into_iter().map(|group| Row::new(outbox, group)));
    }
}

impl Serialize for GroupedCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.rows.serialize(serializer)
    }
}

impl Row {
    fn new(outbox: &str, group: CountGroup) -> Self {
        Self {
            outbox: outbox.to_owned(),
            subscription: group.subscription,
            event_type: group.event_type,
            producer: group.producer,
            hour: group.hour.map(|hour| hour.to_string()),
            total: group.total,
            pending: group.pending,
            failed: group.failed,
            done: group.done,
            due: group.due,
            attempts_avg: group.attempts_avg,
            attempts_max: group.attempts_max,
            lag_seconds: group.lag.map(Seconds::from),
            latency_seconds: group.latency.map(Seconds::from),
        }
    }

    fn keys(&self, by: By) -> Vec<String> {
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        match by {
            By::Type => vec![known(&self.event_type)],
            By::Hour => vec![known(&self.hour)],
            By::Producer => vec![known(&self.producer), known(&self.event_type)],
        }
    }

    fn cells(&self, by: By) -> Vec<String> {
        let whose = match &self.subscription {
            Some(name) => format!("{}/{name}", self.outbox),
            None => format!("{}/-", self.outbox),
        };
        let counts = [self.total, self.done, self.pending, self.failed, self.due].map(|n| n.to_string());
        let attempts = match (self.attempts_avg, self.attempts_max) {
            (Some(avg), Some(max)) => format!("{avg:.1}, {max}"),
            _ => "-".to_owned(),
        };
        let lag = times(self.lag_seconds, |of| [of.p50, of.p95, of.max]);
        let latency = times(self.latency_seconds, |of| [of.p50, of.p95, of.max]);
        let mut cells = vec![whose];
        cells.extend(self.keys(by));
        cells.extend(counts);
        cells.extend(lag);
        cells.extend(latency);
        cells.push(attempts);
        cells
    }
}

fn times(spread: Option<Seconds>, some: impl Fn(Seconds) -> [f64; 3]) -> [String; 3] {
    // If the writer's clock is ahead of the database's, the age is 0.
    let shown =
        |seconds: f64| Duration::try_from_secs_f64(seconds.max(0.0)).map_or_else(|_| "-".to_owned(), age);
    spread.map_or_else(|| ["-", "-", "-"].map(str::to_owned), |spread| some(spread).map(shown))
}

impl View for GroupedCounts {
    fn table(&self) -> Table {
        let mut columns = vec![("subscription", Align::Left)];
        columns.extend(match self.by {
            By::Type => vec![("type", Align::Left)],
            By::Hour => vec![("hour", Align::Left)],
            By::Producer => vec![("producer", Align::Left), ("type", Align::Left)],
        });
        columns.extend(
            [
                "total",
                "done",
                "pending",
                "failed",
                "due",
                "lag p50",
                "p95",
                "oldest",
                "latency p50",
                "p95",
                "max",
            ]
            .map(|name| (name, Align::Right)),
        );
        columns.push(("attempts avg, max", Align::Right));
        let mut table = Table::new(columns, "there are no events");
        self.rows.iter().for_each(|row| table.row(row.cells(self.by)));
        table
    }
}

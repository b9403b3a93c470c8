//! The output of `status`: one row per subscription; as JSON with every figure.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use postrider::ledger::ParkedState;
use postrider::operate::AuditEntry;
use postrider::store::{Overview, SubscriptionOverview, SubscriptionState};
use postrider::{Position, Timestamp};
use serde::Serialize;

use super::relays::{Down, Relay};
use crate::config::Settings;
use crate::output::{Align, Table, View, age};

/// The subscriptions of the selected outboxes, from the database and from the configuration.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub(in crate::commands) struct Report {
    rows: Vec<Row>,
    /// Outboxes and prepared transactions.
    #[serde(skip)]
    prepared: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Row {
    outbox: String,
    subscription: String,
    /// Whether it is in the configuration. If not, another relay or none serves it.
    configured: bool,
    #[serde(flatten)]
    state: State,
    lease: Option<Lease>,
    /// Relays that wait for the lease.
    standby: Vec<String>,
    /// Destinations that its relay considers down.
    destinations_down: Vec<Down>,
    /// Messages that its relay delivers per second; `None` without a relay.
    rate: Option<f64>,
    /// Messages at the destination; `None` without a relay.
    in_flight: Option<u64>,
    /// Every relay that serves it or waits for it, the leader first; also those that died during the last day.
    relays: Vec<Relay>,
    /// All events up to this position are done; `None` before it is created, and for a table with a state per row.
    floor: Option<i64>,
    /// The last position of the outbox.
    last: i64,
    backlog: Backlog,
    oldest_undelivered: Option<String>,
    oldest_undelivered_seconds: Option<f64>,
    /// This subscription still needs events that are older than the outbox's `retention`.
    blocks_retention: bool,
    parked: BTreeMap<&'static str, u64>,
    /// Counting stopped at a limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    parked_at_least: bool,
    /// Those of them that are dead: they wait for an operator.
    dead: u64,
    last_error: Option<String>,
    /// The latest errors without repetitions, newest first.
    errors: Vec<String>,
    /// Prepared transactions of its server that are not finished: on MariaDB the floor may wait for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    prepared_transactions: Vec<String>,
}

/// The state of a subscription.
#[derive(Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum State {
    /// A relay serves it.
    Leading,
    /// An operator paused it.
    Paused {
        reason: String,
        /// Who paused it and when, according to the audit trail.
        by: Option<String>,
        at: Option<String>,
    },
    /// Its database's history changed; it waits for an operator.
    Halted { reason: String },
    /// No relay serves it.
    NoRelay,
    /// It is only in the configuration: a relay creates it at startup.
    New,
}

#[derive(Serialize)]
struct Lease {
    holder: String,
    expires_at: String,
    expired: bool,
    expired_seconds: f64,
}

#[derive(Serialize, Default)]
struct Backlog {
    events: u64,
    /// Counting stopped at this number; there may be more.
    at_least: bool,
}

impl fmt::Display for Backlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.at_least { "at least " } else { "" }, self.events)
    }
}

impl Report {
    pub(super) fn add(&mut self, outbox: &str, overview: &Overview, settings: &Settings) {
        let configured = |name: &str| settings.subscriptions.get(name).is_some_and(|of| of.reads(outbox));
        let known = |name: &str| overview.subscriptions.iter().any(|subscription| subscription.name == name);
        let keep = settings.outboxes.get(outbox).and_then(|of| of.retention.keep);
        let held = keep.and_then(|keep| overview.held_back(keep)).map(|held| held.subscription);
        let has_row_states =
            settings.outboxes.get(outbox).is_some_and(|of| of.database.admin().layout().is_some());
        for subscription in &overview.subscriptions {
            let mut row = Row::new(outbox, subscription, overview, configured(&subscription.name));
            row.blocks_retention = held.as_ref() == Some(&subscription.name);
            if has_row_states {
                row.floor = None;
            }
            self.rows.push(row);
        }
        for name in settings.subscriptions.keys().filter(|name| configured(name) && !known(name)) {
            self.rows.push(Row::of_new(outbox, name, overview.last));
        }
    }
}

impl Report {
    /// A line per subscription, for `top`.
    #[cfg(feature = "top")]
    pub(in crate::commands) fn lines(&self) -> Vec<super::Line> {
        self.rows.iter().map(|row| super::Line::new(row.cells(), row.numbers())).collect()
    }

    /// The subscriptions of an outbox that are paused.
    pub(super) fn paused(&self, outbox: &str) -> Vec<String> {
        let is_paused = |row: &&Row| row.outbox == outbox && matches!(row.state, State::Paused { .. });
        self.rows.iter().filter(is_paused).map(|row| row.subscription.clone()).collect()
    }

    /// Adds who paused a subscription.
    pub(super) fn set_paused_by(&mut self, outbox: &str, subscription: &str, entry: &AuditEntry) {
        for row in self.rows.iter_mut().filter(|of| of.outbox == outbox && of.subscription == subscription) {
            if let State::Paused { by, at, .. } = &mut row.state {
                *by = Some(entry.made_by.clone());
                *at = Some(entry.made_at.to_string());
            }
        }
    }

    /// The prepared transactions that are not finished, with their outboxes.
    pub(super) fn prepared(&self) -> &[(String, String)] {
        &self.prepared
    }

    /// Adds the prepared transactions that are not finished on the server of an outbox.
    pub(super) fn set_prepared(&mut self, outbox: &str, names: &[String]) {
        self.prepared.extend(names.iter().map(|name| (outbox.to_owned(), name.clone())));
        for row in self.rows.iter_mut().filter(|row| row.outbox == outbox) {
            row.prepared_transactions = names.to_vec();
        }
    }
}

impl Row {
    fn new(outbox: &str, subscription: &SubscriptionOverview, overview: &Overview, configured: bool) -> Self {
        let now = overview.now;
        let oldest = subscription.oldest();
        let relays = Relay::all(subscription, now);
        let leader = relays.iter().find(|of| of.is_leading());
        let counts = ParkedState::ALL.iter().map(|state| (state.as_str(), subscription.parked.count(*state)));
        Self {
            outbox: outbox.to_owned(),
            subscription: subscription.name.clone(),
            configured,
            state: state(subscription, now),
            lease: subscription.lease.as_ref().map(|lease| Lease {
                holder: lease.holder.clone(),
                expires_at: lease.expires_at.to_string(),
                expired: lease.expires_at <= now,
                expired_seconds: lease.expires_at.until(now).as_secs_f64(),
            }),
            standby: relays.iter().filter_map(Relay::standby).map(str::to_owned).collect(),
            destinations_down: leader.map(|of| of.destinations_down.clone()).unwrap_or_default(),
            rate: leader.and_then(Relay::rate),
            in_flight: leader.map(Relay::in_flight),
            floor: Some(subscription.floor.get()),
            last: overview.last.get(),
            backlog: Backlog { events: subscription.backlog.events, at_least: subscription.backlog.more },
            oldest_undelivered: oldest.map(|time| time.to_string()),
            oldest_undelivered_seconds: oldest.map(|time| time.until(now).as_secs_f64()),
            blocks_retention: false,
            parked: counts.into_iter().filter(|(_, count)| *count > 0).collect(),
            parked_at_least: subscription.parked.more,
            dead: subscription.parked.count(ParkedState::Dead),
            last_error: subscription.parked.last_error().map(str::to_owned),
            errors: subscription.parked.errors.clone(),
            prepared_transactions: Vec::new(),
            relays,
        }
    }

    fn of_new(outbox: &str, name: &str, last: Position) -> Self {
        Self {
            outbox: outbox.to_owned(),
            subscription: name.to_owned(),
            configured: true,
            state: State::New,
            lease: None,
            standby: Vec::new(),
            destinations_down: Vec::new(),
            rate: None,
            in_flight: None,
            relays: Vec::new(),
            floor: None,
            last: last.get(),
            backlog: Backlog::default(),
            oldest_undelivered: None,
            oldest_undelivered_seconds: None,
            blocks_retention: false,
            parked: BTreeMap::new(),
            parked_at_least: false,
            dead: 0,
            last_error: None,
            errors: Vec::new(),
            prepared_transactions: Vec::new(),
        }
    }

    fn words(&self) -> String {
        let words = match (&self.state, &self.lease) {
            (State::Leading, Some(lease)) => format!("led by {}", lease.holder),
            (State::Leading, None) => "led".to_owned(),
            (State::Paused { reason, by: Some(by), .. }, _) => format!("paused by {by}: {reason}"),
            (State::Paused { reason, .. }, _) => format!("paused: {reason}"),
            (State::Halted { reason }, _) => format!("halted: {reason}"),
            (State::NoRelay, Some(lease)) => {
                let ago = age(Duration::from_secs_f64(lease.expired_seconds));
                format!("no relay: the lease of {} expired {ago} ago", lease.holder)
            }
            (State::NoRelay, None) => "no relay".to_owned(),
            (State::New, _) => "not created yet".to_owned(),
        };
        let mut all = vec![words];
        all.extend(self.destinations_down.iter().map(Down::words));
        all.extend(self.relays.iter().filter(|of| of.is_leading()).filter_map(Relay::limits));
        all.extend((!self.standby.is_empty()).then(|| format!("standby: {}", self.standby.join(", "))));
        all.extend((!self.configured).then(|| "not in the configuration".to_owned()));
        all.extend(self.blocks_retention.then(|| "blocks retention".to_owned()));
        all.join("; ")
    }

    /// Destinations that are down come first, because they explain why nothing is delivered.
    fn errors(&self) -> String {
        let down = self.destinations_down.iter().map(|down| down.error.as_str());
        down.chain(self.errors.iter().map(String::as_str)).collect::<Vec<_>>().join("; ")
    }

    /// What the columns are sorted by; texts are compared as such.
    #[cfg(feature = "top")]
    fn numbers(&self) -> [Option<f64>; 9] {
        let parked: u64 = self.parked.values().sum();
        [
            None,
            None,
            self.floor.map(|floor| floor as f64),
            Some(self.backlog.events as f64),
            self.oldest_undelivered_seconds,
            self.rate,
            self.in_flight.map(|messages| messages as f64),
            Some(parked as f64),
            None,
        ]
    }

    fn cells(&self) -> [String; 9] {
        let more = if self.parked_at_least { "at least " } else { "" };
        let parked = self.parked.iter().map(|(state, count)| format!("{more}{count} {state}"));
        [
            format!("{}/{}", self.outbox, self.subscription),
            self.words(),
            self.floor.map_or_else(|| "-".to_owned(), |floor| floor.to_string()),
            if matches!(self.state, State::New) { "-".to_owned() } else { self.backlog.to_string() },
            self.oldest_undelivered_seconds.map(|s| age(Duration::from_secs_f64(s))).unwrap_or_default(),
            self.rate.map_or_else(String::new, |rate| format!("{rate:.1}/s")),
            self.in_flight.map_or_else(String::new, |messages| messages.to_string()),
            parked.collect::<Vec<_>>().join(", "),
            self.errors(),
        ]
    }
}

fn state(subscription: &SubscriptionOverview, now: Timestamp) -> State {
    match subscription.state(now) {
        SubscriptionState::Halted(reason) => State::Halted { reason: reason.to_owned() },
        SubscriptionState::Paused(reason) => State::Paused { reason: reason.to_owned(), by: None, at: None },
        SubscriptionState::Leading(_) => State::Leading,
        _ => State::NoRelay,
    }
}

/// The columns of the table.
#[cfg_attr(not(feature = "top"), allow(dead_code, reason = "only `top` draws the table itself"))]
pub(in crate::commands) const COLUMNS: [&str; 9] = [
    "subscription",
    "state",
    "done up to",
    "waiting",
    "oldest",
    "rate",
    "in flight",
    "parked",
    "errors, newest first",
];

impl View for Report {
    fn table(&self) -> Table {
        use Align::{Left, Right};
        let aligned = [Left, Left, Right, Right, Right, Right, Right, Left, Left];
        let columns: Vec<(&'static str, Align)> = COLUMNS.into_iter().zip(aligned).collect();
        let mut table =
            Table::new(columns, "there is no subscription in the configuration or in the database");
        self.rows.iter().for_each(|row| table.row(row.cells()));
        table
    }
    /// The relays, if there are any.
    fn more(&self) -> Vec<Table> {
        let columns = [
            ("subscription", Align::Left),
            ("relay", Align::Left),
            ("role", Align::Left),
            ("epoch", Align::Right),
            ("version", Align::Left),
            ("settings", Align::Left),
            ("last seen", Align::Right),
            ("last error", Align::Left),
        ];
        let mut table = Table::new(columns, "");
        let mut is_empty = true;
        for row in &self.rows {
            for relay in &row.relays {
                let name = format!("{}/{}", row.outbox, row.subscription);
                table.row([name].into_iter().chain(relay.cells()));
                is_empty = false;
            }
        }
        if is_empty { Vec::new() } else { vec![table] }
    }
}

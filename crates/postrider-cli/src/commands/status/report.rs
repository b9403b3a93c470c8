//! What `status` shows: each subscription in one row, for programs with every figure.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use postrider::ledger::ParkedState;
use postrider::store::{Overview, SubscriptionOverview};
use postrider::{Position, Timestamp};
use serde::Serialize;

use crate::config::Settings;
use crate::output::{Align, Table, View, age};

/// The subscriptions of some outboxes: those of the database and those of the configuration.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub(super) struct Report {
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    outbox: String,
    subscription: String,
    /// Whether it stands in the configuration. One that does not is served by another relay or by nobody.
    configured: bool,
    #[serde(flatten)]
    state: State,
    lease: Option<Lease>,
    /// All up to here is done; `None` before it is created.
    floor: Option<i64>,
    /// The last position of the outbox.
    last: i64,
    backlog: Backlog,
    oldest_undelivered: Option<String>,
    oldest_undelivered_seconds: Option<f64>,
    /// It is the one that keeps events from being deleted that are older than the outbox's `retention`.
    holds_retention_back: bool,
    parked: BTreeMap<&'static str, u64>,
    last_error: Option<String>,
    /// Prepared transactions of its server that nobody has decided: on MariaDB the floor may wait for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    undecided_transactions: Vec<String>,
}

/// How it is doing, in one word.
#[derive(Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum State {
    /// A relay works it.
    Leading,
    /// The operator stopped it.
    Paused { reason: String },
    /// Its database's history changed; it waits for an operator.
    Halted { reason: String },
    /// No relay works it.
    Idle,
    /// It stands in the configuration only: a relay creates it at its start.
    New,
}

#[derive(Serialize)]
struct Lease {
    holder: String,
    expires_at: String,
    expired: bool,
}

#[derive(Serialize, Default)]
struct Backlog {
    events: u64,
    /// There are at least so many: counting stopped.
    at_least: bool,
}

impl fmt::Display for Backlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.at_least { "at least " } else { "" }, self.events)
    }
}

impl Report {
    pub(super) fn add(&mut self, outbox: &str, overview: &Overview, settings: &Settings) {
        let configured = |name: &str| settings.subscriptions.get(name).is_some_and(|of| of.outbox == outbox);
        let known = |name: &str| overview.subscriptions.iter().any(|subscription| subscription.name == name);
        let keep = settings.outboxes.get(outbox).and_then(|of| of.retention.keep);
        let held = keep.and_then(|keep| overview.held_back(keep)).map(|held| held.subscription);
        for subscription in &overview.subscriptions {
            let mut row = Row::new(outbox, subscription, overview, configured(&subscription.name));
            row.holds_retention_back = held.as_ref() == Some(&subscription.name);
            self.rows.push(row);
        }
        for name in settings.subscriptions.keys().filter(|name| configured(name) && !known(name)) {
            self.rows.push(Row::of_new(outbox, name, overview.last));
        }
    }
}

impl Report {
    /// Tells of transactions that nobody has decided on the server of an outbox.
    pub(super) fn set_undecided(&mut self, outbox: &str, names: &[String]) {
        for row in self.rows.iter_mut().filter(|row| row.outbox == outbox) {
            row.undecided_transactions = names.to_vec();
        }
    }
}

impl Row {
    fn new(outbox: &str, subscription: &SubscriptionOverview, overview: &Overview, configured: bool) -> Self {
        let now = overview.now;
        let oldest = subscription.oldest();
        let counts = ParkedState::ALL.map(|state| (state.as_str(), subscription.parked.count(state)));
        Self {
            outbox: outbox.to_owned(),
            subscription: subscription.name.clone(),
            configured,
            state: state(subscription, now),
            lease: subscription.lease.as_ref().map(|lease| Lease {
                holder: lease.holder.clone(),
                expires_at: lease.expires_at.to_string(),
                expired: lease.expires_at <= now,
            }),
            floor: Some(subscription.floor.get()),
            last: overview.last.get(),
            backlog: Backlog { events: subscription.backlog.events, at_least: subscription.backlog.more },
            oldest_undelivered: oldest.map(|time| time.to_string()),
            oldest_undelivered_seconds: oldest.map(|time| time.until(now).as_secs_f64()),
            holds_retention_back: false,
            parked: counts.into_iter().filter(|(_, count)| *count > 0).collect(),
            last_error: subscription.parked.last_error.clone(),
            undecided_transactions: Vec::new(),
        }
    }

    fn of_new(outbox: &str, name: &str, last: Position) -> Self {
        Self {
            outbox: outbox.to_owned(),
            subscription: name.to_owned(),
            configured: true,
            state: State::New,
            lease: None,
            floor: None,
            last: last.get(),
            backlog: Backlog::default(),
            oldest_undelivered: None,
            oldest_undelivered_seconds: None,
            holds_retention_back: false,
            parked: BTreeMap::new(),
            last_error: None,
            undecided_transactions: Vec::new(),
        }
    }

    fn words(&self) -> String {
        let words = match (&self.state, &self.lease) {
            (State::Leading, Some(lease)) => format!("led by {}", lease.holder),
            (State::Leading, None) => "led".to_owned(),
            (State::Paused { reason }, _) => format!("paused: {reason}"),
            (State::Halted { reason }, _) => format!("halted: {reason}"),
            (State::Idle, Some(lease)) => format!("no relay; {} left it", lease.holder),
            (State::Idle, None) => "no relay".to_owned(),
            (State::New, _) => "not created yet".to_owned(),
        };
        let words = if self.configured { words } else { format!("{words}; not in the configuration") };
        if self.holds_retention_back { format!("{words}; holds retention back") } else { words }
    }

    fn cells(&self) -> [String; 7] {
        let parked = self.parked.iter().map(|(state, count)| format!("{count} {state}"));
        [
            format!("{}/{}", self.outbox, self.subscription),
            self.words(),
            self.floor.map(|floor| floor.to_string()).unwrap_or_default(),
            self.floor.map(|_| self.backlog.to_string()).unwrap_or_default(),
            self.oldest_undelivered_seconds.map(|s| age(Duration::from_secs_f64(s))).unwrap_or_default(),
            parked.collect::<Vec<_>>().join(", "),
            self.last_error.clone().unwrap_or_default(),
        ]
    }
}

/// What an operator did comes before who holds the lease.
fn state(subscription: &SubscriptionOverview, now: Timestamp) -> State {
    match (&subscription.halted, &subscription.paused) {
        (Some(reason), _) => State::Halted { reason: reason.clone() },
        (None, Some(reason)) => State::Paused { reason: reason.clone() },
        (None, None) if subscription.leader(now).is_some() => State::Leading,
        (None, None) => State::Idle,
    }
}

impl View for Report {
    fn table(&self) -> Table {
        let columns = [
            ("subscription", Align::Left),
            ("state", Align::Left),
            ("done up to", Align::Right),
            ("waiting", Align::Right),
            ("oldest", Align::Right),
            ("parked", Align::Left),
            ("last error", Align::Left),
        ];
        let mut table = Table::new(columns, "no subscription is configured or in the database");
        self.rows.iter().for_each(|row| table.row(row.cells()));
        table
    }
}

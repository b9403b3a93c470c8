//! Gauges of the database: one overview per outbox, read when the metrics are requested and kept for a few seconds.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::handle::ServedSubscription;
use super::meter::OUTBOX_UNNAMED;
use crate::ledger::ParkedState;
use crate::store::{Backlog, Overview, Store, SubscriptionOverview};
use crate::telemetry::{self, Value, set};
use crate::{Clock, Timestamp};

/// An overview is not read again before it is this old.
const OVERVIEW_AGE_MIN: Duration = Duration::from_secs(5);

/// How long an overview may take. A database that does not answer must not keep the metrics of the others.
const OVERVIEW_TIME_MAX: Duration = Duration::from_secs(5);

/// Undelivered events are counted up to this number.
const BACKLOG_MAX: u64 = 100_000;

/// What the last overview of an outbox says about the health of its subscriptions.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OutboxHealth {
    /// The name of the outbox, as in the label `outbox` of the metrics.
    pub outbox: String,
    /// Why the last overview could not be read, if it could not. The rest is then from the last one that was read.
    pub error: Option<String>,
    /// How old the overview is; `None` if none was read yet.
    pub age: Option<Duration>,
    /// The backlog of each subscription that this relay serves, as far as it exists in the database, and since when its
    /// oldest event waits at the time of the call.
    pub subscriptions: Vec<SubscriptionHealth>,
}

/// A part of [`OutboxHealth`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SubscriptionHealth {
    /// Its name.
    pub subscription: String,
    /// Its backlog.
    pub backlog: Backlog,
    /// The age of the oldest event of the backlog; zero if there is none.
    pub backlog_age: Duration,
    /// It is paused or halted: it delivers nothing until an operator acts.
    pub is_stopped: bool,
}

/// The gauges of one outbox.
pub(super) struct OutboxGauges {
    label: Arc<str>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// How long events are kept.
    keep: Option<Duration>,
    /// The subscriptions that this relay serves, each with its limit of parked events.
    served: Vec<(Arc<ServedSubscription>, u64)>,
    last: Mutex<LastOverview>,
}

#[derive(Default)]
struct LastOverview {
    /// When it was tried last.
    tried_at: Option<Duration>,
    error: Option<String>,
    overview: Option<(Duration, Overview)>,
}

impl OutboxGauges {
    pub(super) fn new(
        label: Option<String>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        keep: Option<Duration>,
        served: Vec<(Arc<ServedSubscription>, u64)>,
    ) -> Self {
        let label = label.as_deref().unwrap_or(OUTBOX_UNNAMED).into();
        Self { label, store, clock, keep, served, last: Mutex::default() }
    }

    /// Reads the overview if it is old enough, and sets the gauges. Callers at the same time share one read.
    pub(super) async fn refresh(&self) -> OutboxHealth {
        let mut last = self.last.lock().await;
        let now = self.clock.now().elapsed;
        if last.tried_at.is_none_or(|at| now.saturating_sub(at) >= OVERVIEW_AGE_MIN) {
            last.tried_at = Some(now);
            match tokio::time::timeout(OVERVIEW_TIME_MAX, self.store.overview(BACKLOG_MAX)).await {
                Ok(Ok(overview)) => {
                    (last.error, last.overview) = (None, Some((self.clock.now().elapsed, overview)));
                }
                Ok(Err(error)) => last.error = Some(error.one_line()),
                Err(_) => {
                    last.error = Some(format!("the database did not answer within {OVERVIEW_TIME_MAX:?}"))
                }
            }
        }
        let mut health = OutboxHealth {
            outbox: self.label.to_string(),
            error: last.error.clone(),
            ..OutboxHealth::default()
        };
        if let Some((read_at, overview)) = &last.overview {
            let age = self.clock.now().elapsed.saturating_sub(*read_at);
            // The database's clock now: ages grow on while the database does not answer.
            let wall = overview.now.after(age);
            health.age = Some(age);
            health.subscriptions = self.set_all(overview, wall);
        }
        health
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    fn set_all(&self, overview: &Overview, wall: Timestamp) -> Vec<SubscriptionHealth> {
        let mut found = Vec::new();
        for (served, parked_max) in &self.served {
            let name: Arc<str> = served.name.as_str().into();
            let labels = || -> [Value; 2] { [(&self.label).into(), (&name).into()] };
            set(&telemetry::PARKED_LIMIT, labels(), *parked_max as f64);
            if let Some(of) = overview.subscriptions.iter().find(|of| of.name == served.name) {
                self.set_subscription(of, labels, wall);
                found.push(SubscriptionHealth {
                    subscription: served.name.clone(),
                    backlog: of.backlog,
                    backlog_age: of.backlog.oldest.map_or(Duration::ZERO, |oldest| oldest.until(wall)),
                    is_stopped: of.paused.is_some() || of.halted.is_some(),
                });
            }
        }
        if let Some(keep) = self.keep {
            let lag = overview
                .held_back(keep)
                .map_or(Duration::ZERO, |held| held.oldest.until(wall).saturating_sub(keep));
            set(&telemetry::RETENTION_LAG, [(&self.label).into()], lag.as_secs_f64());
        }
        if let Some(transactions) = overview.oldest_transaction {
            let age = transactions.map_or(Duration::ZERO, |began| began.until(wall));
            set(&telemetry::OLDEST_OPEN_TRANSACTION_AGE, [(&self.label).into()], age.as_secs_f64());
        }
        found
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    fn set_subscription(&self, of: &SubscriptionOverview, labels: impl Fn() -> [Value; 2], wall: Timestamp) {
        let age = of.oldest().map_or(Duration::ZERO, |oldest| oldest.until(wall));
        set(&telemetry::OLDEST_UNDELIVERED_AGE, labels(), age.as_secs_f64());
        set(&telemetry::BACKLOG_EVENTS, labels(), of.backlog.events as f64);
        set(&telemetry::BACKLOG_BOUNDED, labels(), f64::from(u8::from(of.backlog.more)));
        let with = |value: &'static str| {
            let [outbox, subscription] = labels();
            [outbox, subscription, value.into()]
        };
        for state in ParkedState::ALL {
            set(&telemetry::PARKED_EVENTS, with(state.as_str()), of.parked.count(*state) as f64);
        }
        let now = match (&of.halted, &of.paused) {
            (Some(_), _) => "halted",
            (None, Some(_)) => "paused",
            (None, None) if of.leader(wall).is_some() => "leading",
            (None, None) => "no_relay",
        };
        for state in ["leading", "no_relay", "paused", "halted"] {
            set(&telemetry::SUBSCRIPTION_STATE, with(state), f64::from(u8::from(state == now)));
        }
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;
    use crate::clock::TestClock;
    use crate::relay::driver_handle::DriverHandle;
    use crate::store::Start;
    use crate::store::sqlite::SqliteStore;
    use crate::{Event, Outbox, Result};

    fn served(store: &Arc<dyn Store>) -> Arc<ServedSubscription> {
        let driver = Arc::new(DriverHandle::new("mail", None, "relay", None));
        Arc::new(ServedSubscription { name: "mail".to_owned(), store: store.clone(), driver })
    }

    #[tokio::test]
    async fn an_overview_is_read_again_after_five_seconds() -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outbox.db");
        SqliteStore::migrate(&path)?;
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path)?);
        store.subscribe("mail", Start::Beginning).await?;
        let clock = TestClock::default();
        let gauges =
            OutboxGauges::new(None, store.clone(), Arc::new(clock.clone()), None, vec![(served(&store), 7)]);
        let backlog = async || gauges.refresh().await.subscriptions[0].backlog.events;
        assert_eq!(backlog().await, 0);
        let connection = rusqlite::Connection::open(&path).unwrap();
        // SQLite's clock counts milliseconds: an event of this moment could be in its future.
        let event = Event::new("order.placed", "{}").with_time(Timestamp::from_micros(1_700_000_000_000_000));
        Outbox::new().write(&connection, event)?;
        clock.advance(Duration::from_millis(4_999));
        assert_eq!(backlog().await, 0, "the overview is kept");
        clock.advance(Duration::from_millis(1));
        assert_eq!(backlog().await, 1);

        let age = gauges.refresh().await.subscriptions[0].backlog_age;
        store.close().await;
        clock.advance(Duration::from_secs(100));
        let lost = gauges.refresh().await;
        assert!(lost.error.is_some() && lost.age == Some(Duration::from_secs(100)), "{lost:?}");
        let older = lost.subscriptions[0].backlog_age;
        assert_eq!(older - age, Duration::from_secs(100), "ages grow on without the database");
        Ok(())
    }
}

//! An outbox to look at: events, of which some are parked, on SQLite and PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use postrider::ledger::{Intervals, LastSeen, ParkedRow, ParkedState};
use postrider::store::admin::{Admin, PostgresAdmin, SqliteAdmin};
use postrider::store::postgres::PostgresConfig;
use postrider::store::{Acquired, LeaseRequest, RowExtras, Settled, Settlement, Start, Store};
use postrider::{Event, Outbox, Position};
use postrider_testkit::servers::postgres;

/// A fresh database, and how to open it again.
pub(crate) struct TestOutbox {
    open: Box<dyn Fn() -> Box<dyn Admin> + Send + Sync>,
    _folder: Option<tempfile::TempDir>,
}

/// An admin from a box.
#[derive(Debug)]
pub(crate) struct Boxed(Box<dyn Admin>);

impl postrider_dashboard::Source for Boxed {
    fn admin(&self) -> &dyn Admin {
        &*self.0
    }
}

impl TestOutbox {
    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let open = move || Box::new(SqliteAdmin::new(path.clone(), None).unwrap()) as Box<dyn Admin>;
        Self::migrated(Box::new(open), Some(folder)).await
    }

    /// `None` if there is no server.
    pub(crate) async fn postgres(schema: &str) -> Option<Self> {
        let url = postgres::url()?;
        let config = PostgresConfig::new(url).unwrap().schema(schema.parse().unwrap());
        let open = move || Box::new(PostgresAdmin::new(config.clone(), None, "shop")) as Box<dyn Admin>;
        Some(Self::migrated(Box::new(open), None).await)
    }

    async fn migrated(
        open: Box<dyn Fn() -> Box<dyn Admin> + Send + Sync>,
        folder: Option<tempfile::TempDir>,
    ) -> Self {
        open().migrate(None, RowExtras::default()).await.unwrap();
        Self { open, _folder: folder }
    }

    pub(crate) fn source(&self) -> Boxed {
        Boxed((self.open)())
    }

    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        (self.open)().open().await.unwrap()
    }

    pub(crate) async fn write(&self, events: Vec<Event>) -> Vec<Position> {
        let mut positions = Vec::new();
        let mut writer = (self.open)().open_writer(Outbox::new()).await.unwrap();
        for part in events.chunks(1_000) {
            let written = writer.write(part.to_vec()).await.unwrap();
            positions.extend(written.iter().map(|written| written.position));
        }
        positions
    }

    /// Writes these events, and parks each in this state of a subscription, as a relay does. All are past.
    pub(crate) async fn park(&self, subscription: &str, events: Vec<(Event, ParkedState)>) -> Vec<Position> {
        let store = self.store().await;
        store.subscribe(subscription, Start::Beginning).await.unwrap();
        let all: Vec<Event> = events.iter().map(|(event, _)| event.clone()).collect();
        let positions = self.write(all).await;
        let lease = LeaseRequest {
            subscription: subscription.to_owned(),
            holder: "relay-1".to_owned(),
            duration: Duration::from_secs(600),
        };
        let Acquired::Granted(loaded) = store.acquire(lease).await.unwrap() else {
            panic!("the lease is held")
        };
        let mut done = Intervals::default();
        (1..=positions.last().unwrap().get()).for_each(|position| done.insert(Position::new(position)));
        let row = |(position, (event, state)): (&Position, &(Event, ParkedState))| ParkedRow {
            position: *position,
            key: event.ordering_key().map(|key| key.into_owned()),
            destination: Some("topic".to_owned()),
            state: *state,
            attempts: 3,
            next_attempt_at: None,
            last_error: Some("the destination said <b>no</b>".to_owned()),
            redelivery: None,
        };
        let last = positions.iter().zip(&events).next_back().unwrap();
        let settlement = Settlement {
            subscription: subscription.to_owned(),
            epoch: loaded.epoch,
            done,
            highest: Some(LastSeen { position: *last.0, id: last.1.0.id }),
            trial: None,
            park: positions.iter().zip(&events).map(row).collect(),
            unpark: Vec::new(),
        };
        assert_eq!(store.settle(settlement).await.unwrap(), Settled::Done);
        store.release(subscription, loaded.epoch, true).await.unwrap();
        store.close().await;
        positions
    }
}

/// An order as an event.
pub(crate) fn order(number: usize) -> Event {
    let payload = format!("{{\"order\":{number},\"big\":9223372036854775808,\"card\":\"canary-payload\"}}");
    Event::new("order.placed", payload)
        .with_key(format!("Order/{number}"))
        .with_header("x-secret", "canary-header")
}

/// This many dead orders.
pub(crate) fn dead(count: usize) -> Vec<(Event, ParkedState)> {
    (0..count).map(|number| (order(number), ParkedState::Dead)).collect()
}

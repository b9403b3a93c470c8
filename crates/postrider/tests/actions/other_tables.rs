//! SeaORM and diesel-async write to the tables of every layout, as the other drivers do.

use diesel_async::{
    AnsiTransactionManager, AsyncConnection, AsyncMysqlConnection, AsyncPgConnection, TransactionManager,
};
use postrider::layout::RowLayout;
use postrider::{ActionContext, Event, Outbox, Result, Timestamp, Written};
use sea_orm::TransactionTrait;
use uuid::Uuid;

use crate::layouts::{columns, order_of};
use crate::place::{Layout, MySqlPlace, OnMariaDb, OnMySql, Place, Postgres, Sqlite};

/// More than one statement takes.
const EVENTS: usize = 1_200;

/// A text that needs quoting in JSON, in SQL, and as an array.
const CUSTOMER: &str = r#"Zoë "the \ O'Hara", {null}, $1"#;

/// Events with everything that the layout has a column for.
fn events(layout: Layout) -> Vec<Event> {
    let action = ActionContext::new("PlaceOrder", "{}").with_times(Timestamp::now(), Timestamp::now());
    let event = |number: usize| {
        let payload = serde_json::json!({ "number": number, "customer": CUSTOMER }).to_string();
        let id = Uuid::from_u128(number as u128).to_string();
        let event = Event::new("order.placed", payload).with_aggregate("Order", id);
        match layout {
            Some(RowLayout::Eventlog) => event.with_namespace("shop").with_action(action.clone()),
            Some(RowLayout::Outbox) => event.with_topic("orders").with_header("who", CUSTOMER),
            _ => event,
        }
    };
    (0..EVENTS).map(event).collect()
}

/// Opens a transaction at this address, writes the events, and commits, or returns the error.
trait Writes {
    async fn write(url: &str, outbox: &Outbox, events: Vec<Event>) -> Result<Vec<Written>>;
}

struct SeaOrm;

impl Writes for SeaOrm {
    async fn write(url: &str, outbox: &Outbox, events: Vec<Event>) -> Result<Vec<Written>> {
        let database = sea_orm::Database::connect(url).await.unwrap();
        let tx = database.begin().await.unwrap();
        let written = outbox.write_all(&tx, events).await?;
        tx.commit().await.unwrap();
        Ok(written)
    }
}

macro_rules! diesel {
    ($name:ident, $connection:ty) => {
        struct $name;

        impl Writes for $name {
            async fn write(url: &str, outbox: &Outbox, events: Vec<Event>) -> Result<Vec<Written>> {
                let mut connection = <$connection>::establish(url).await.unwrap();
                AnsiTransactionManager::begin_transaction(&mut connection).await.unwrap();
                let written = outbox.write_all(&mut connection, events).await?;
                AnsiTransactionManager::commit_transaction(&mut connection).await.unwrap();
                Ok(written)
            }
        }
    };
}

diesel!(DieselPostgres, AsyncPgConnection);
diesel!(DieselMySql, AsyncMysqlConnection);

async fn writes_every_layout<P: Place, W: Writes>() {
    for layout in P::LAYOUTS.iter().copied() {
        let Some(place) = P::create(layout).await else { return };
        let events = events(layout);
        let ids: Vec<Uuid> = events.iter().map(|event| event.id).collect();
        let written = W::write(place.url(), &place.outbox(), events).await.unwrap();
        let found = format!("SELECT {} FROM {{events}} ORDER BY {}", columns(layout), order_of(layout));
        let found = place.rows(&found).await;
        assert_eq!(found.len(), EVENTS, "{layout:?}");
        for (number, row) in found.iter().enumerate() {
            assert_eq!(row[0], "order.placed");
            assert_eq!(row[1], Uuid::from_u128(number as u128).to_string(), "{layout:?}");
        }
        // PostgreSQL shows the bytes of the default layout as hexadecimal digits.
        if let Ok(payload) = serde_json::from_str::<serde_json::Value>(&found[7][2]) {
            assert_eq!(payload, serde_json::json!({ "number": 7, "customer": CUSTOMER }), "{layout:?}");
        }
        if let Some(RowLayout::Outbox) = layout {
            let topics =
                "SELECT COUNT(*) FROM {events} WHERE topic = 'orders' AND headers::text LIKE '%Zoë%'";
            assert_eq!(place.one(topics).await, EVENTS.to_string());
        }
        match layout {
            Some(RowLayout::EventOutbox | RowLayout::OutboxEvents) => {
                let rows = place.rows("SELECT id FROM {events} ORDER BY id").await;
                let reported: Vec<String> =
                    written.iter().map(|one| one.position.get().to_string()).collect();
                assert!(rows.iter().map(|row| &row[0]).eq(&reported), "{layout:?}");
            }
            Some(RowLayout::Eventlog | RowLayout::Outbox) => {
                assert!(written.iter().all(|one| one.position.get() == 0), "{layout:?}: {:?}", written[1]);
            }
            _ => {}
        }
        if layout != Some(RowLayout::OutboxEvents) {
            assert!(written.iter().map(|one| one.id).eq(ids), "{layout:?}");
        }

        // A batch that the database refuses leaves nothing behind.
        let Some(RowLayout::EventOutbox) = layout else { continue };
        let mut twice = self::events(layout);
        twice[EVENTS - 1].id = twice[0].id;
        W::write(place.url(), &place.outbox(), twice).await.unwrap_err();
        assert_eq!(place.one("SELECT COUNT(*) FROM {events}").await, EVENTS.to_string());
    }
}

#[tokio::test]
async fn sea_orm_writes_to_every_layout_on_postgres() {
    writes_every_layout::<Postgres, SeaOrm>().await;
}

#[tokio::test]
async fn sea_orm_writes_to_every_layout_on_mysql() {
    writes_every_layout::<MySqlPlace<OnMySql>, SeaOrm>().await;
}

#[tokio::test]
async fn sea_orm_writes_to_every_layout_on_mariadb() {
    writes_every_layout::<MySqlPlace<OnMariaDb>, SeaOrm>().await;
}

#[tokio::test]
async fn sea_orm_writes_to_every_layout_on_sqlite() {
    writes_every_layout::<Sqlite, SeaOrm>().await;
}

#[tokio::test]
async fn diesel_writes_to_every_layout_on_postgres() {
    writes_every_layout::<Postgres, DieselPostgres>().await;
}

#[tokio::test]
async fn diesel_writes_to_every_layout_on_mysql() {
    writes_every_layout::<MySqlPlace<OnMySql>, DieselMySql>().await;
}

#[tokio::test]
async fn diesel_writes_to_every_layout_on_mariadb() {
    writes_every_layout::<MySqlPlace<OnMariaDb>, DieselMySql>().await;
}

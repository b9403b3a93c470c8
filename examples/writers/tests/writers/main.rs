//! Every writer on every database it is for: in whose transaction, and what an error leaves behind.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy sees only the tests themselves as tests, not their helpers"
)]

mod database;
mod driver;
mod example;

use postrider::inbox::{Inbox, Once};
use postrider::{ActionContext, Code, Event, Outbox, Timestamp};
use postrider_testkit::servers::mysql::Kind;

use database::Database;
use driver::{Delivery, Driver, End};

/// The writers and the databases they are for.
const ALL: [(Driver, &[Engine]); 8] = [
    (Driver::DieselMySql, MYSQL),
    (Driver::DieselPostgres, &[Engine::Postgres]),
    (Driver::MySqlAsync, MYSQL),
    (
        Driver::SeaOrm,
        &[Engine::Postgres, Engine::MySql(Kind::MySql), Engine::MySql(Kind::MariaDb), Engine::Sqlite],
    ),
    (Driver::SqlxMySql, MYSQL),
    (Driver::SqlxPostgres, &[Engine::Postgres]),
    (Driver::SqlxSqlite, &[Engine::Sqlite]),
    (Driver::TokioPostgres, &[Engine::Postgres]),
];
const MYSQL: &[Engine] = &[Engine::MySql(Kind::MySql), Engine::MySql(Kind::MariaDb)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Postgres,
    MySql(Kind),
    Sqlite,
}

/// Runs the test with every writer on an empty outbox of its own.
async fn with_every_writer(test: impl AsyncFn(Driver, &Database)) {
    for (driver, engines) in ALL {
        for engine in engines {
            if let Some(database) = Database::new(*engine).await {
                test(driver, &database).await;
                database.remove().await;
            }
        }
    }
}

fn event(event_type: &str) -> Event {
    Event::new(event_type, "{}")
}

fn all_columns() -> Event {
    Event::new("order.signed", &b"\xff\x00\xfe\\x41'"[..])
        .with_aggregate("Order", "№ 42")
        .with_key("Zoë 🚚")
        .with_header("tenant", "blå 🌍 \\ \" '")
        .with_time("0001-01-01T00:00:00.000001Z".parse().unwrap())
        .with_topic("orders")
        .with_max_attempts(u32::MAX)
        .with_expires_at("9999-12-30T21:59:59.999999Z".parse().unwrap())
        .with_namespace("shop.checkout")
        .with_producer("node-3")
        .with_action(
            ActionContext::new("SignOrder", r#"{"by": "Zoë"}"#)
                .with_times(Timestamp::from_micros(-1), Timestamp::from_micros(1)),
        )
}

#[tokio::test(flavor = "multi_thread")]
async fn events_commit_and_roll_back_with_their_transaction() {
    with_every_writer(async |driver, database| {
        let lost = driver.write(database, &database.outbox(), vec![event("lost")], End::Rollback).await;
        lost.unwrap();
        let events = vec![all_columns(), event("plain"), event("last").with_aggregate("Order", "7")];
        let written = driver.write(database, &database.outbox(), events.clone(), End::Commit).await.unwrap();
        let stored = database.events().await;
        let told: Vec<_> = written.iter().map(|written| (written.id, written.position)).collect();
        let real: Vec<_> = stored.iter().map(|stored| (stored.event.id, stored.position)).collect();
        assert_eq!(told, real, "{driver:?} on {:?}", database.engine);
        assert!(
            stored.iter().map(|stored| &*stored.event).eq(&events),
            "{driver:?} on {:?}",
            database.engine
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_events_keep_their_order_and_are_written_all_or_none() {
    with_every_writer(async |driver, database| {
        let events: Vec<Event> = (0..2_500).map(|n| Event::new("many", n.to_string())).collect();
        let written = driver.write(database, &database.outbox(), events.clone(), End::Commit).await.unwrap();
        let stored = database.events().await;
        assert_eq!(written.len(), 2_500);
        let told = written.iter().map(|written| (written.id, written.position));
        assert!(told.eq(stored.iter().map(|stored| (stored.event.id, stored.position))), "{driver:?}");
        assert!(stored.iter().map(|stored| &*stored.event).eq(&events), "{driver:?}");

        // The last of many is refused by the database itself; the transaction goes on without them.
        if database.engine == Engine::Postgres {
            return;
        }
        database.refuse("refused").await;
        let mut events = events;
        events.push(event("refused"));
        let refused =
            driver.write(database, &database.outbox(), events, End::OneMore(Box::new(event("after")))).await;
        assert!(refused.is_err(), "{driver:?} on {:?}", database.engine);
        let after = database.events().await.split_off(stored.len());
        let types: Vec<&str> = after.iter().map(|stored| stored.event.event_type.as_str()).collect();
        assert_eq!(types, ["after"], "{driver:?} on {:?}", database.engine);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_event_changes_nothing_and_writing_no_events_runs_no_statement() {
    with_every_writer(async |driver, database| {
        let outbox = database.outbox();
        let refused =
            driver.write(database, &outbox, vec![event("")], End::OneMore(Box::new(event("after")))).await;
        assert_eq!(refused.unwrap_err().code(), Code::TypeEmpty, "{driver:?}");
        assert_eq!(driver.write(database, &outbox, Vec::new(), End::Commit).await.unwrap(), []);
        assert_eq!(database.events().await.len(), 1, "{driver:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_driver_has_the_inbox_in_its_transaction() {
    with_every_writer(async |driver, database| {
        let (inbox, id) = (database.inbox(), uuid::Uuid::now_v7());
        let deliver = async |is_committed| {
            driver.deliver(database, &inbox, Delivery { id, is_committed }).await.unwrap()
        };
        let engine = database.engine;
        assert_eq!(deliver(false).await, Once::Applied(1), "{driver:?} on {engine:?}: rolled back");
        assert_eq!(deliver(true).await, Once::Applied(1), "{driver:?} on {engine:?}: committed");
        assert_eq!(deliver(true).await, Once::Duplicate, "{driver:?} on {engine:?}: again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_driver_of_postgresql_has_processed_events_as_an_inbox() {
    for driver in [Driver::DieselPostgres, Driver::SeaOrm, Driver::SqlxPostgres, Driver::TokioPostgres] {
        let Some(database) = Database::new(Engine::Postgres).await else { return };
        database
            .run(
                "CREATE TABLE processed_events (event_id UUID PRIMARY KEY, consumer_group VARCHAR(100) NOT NULL,
                 processed_at TIMESTAMPTZ NOT NULL DEFAULT now(), expires_at TIMESTAMPTZ NOT NULL)",
            )
            .await;
        let inbox = Inbox::processed_events(postrider::Ident::new("public").unwrap());
        let delivery = Delivery { id: uuid::Uuid::now_v7(), is_committed: true };
        for expected in [Once::Applied(1), Once::Duplicate] {
            assert_eq!(driver.deliver(&database, &inbox, delivery).await.unwrap(), expected, "{driver:?}");
        }
        database.run("UPDATE processed_events SET consumer_group = 'billing'").await;
        let refused = driver.deliver(&database, &inbox, Delivery { is_committed: false, ..delivery }).await;
        assert_eq!(refused.unwrap_err().code(), Code::InboxUnfit, "{driver:?}");
        database.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_tables_are_reported() {
    with_every_writer(async |driver, database| {
        database.drop_tables().await;
        let delivery = Delivery { id: uuid::Uuid::now_v7(), is_committed: false };
        let error = driver.deliver(database, &database.inbox(), delivery).await.unwrap_err();
        assert_eq!(error.code(), Code::SchemaMissing, "{driver:?} on {:?}: {error}", database.engine);
        let error = driver.write(database, &database.outbox(), vec![event("a")], End::Rollback).await;
        let error = error.unwrap_err();
        assert_eq!(error.code(), Code::SchemaMissing, "{driver:?} on {:?}: {error}", database.engine);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_events_than_a_statement_takes_need_a_transaction_on_mysql() {
    for kind in Kind::ALL {
        let Some(database) = Database::new(Engine::MySql(kind)).await else { continue };
        let mut connection = mysql_async::Conn::from_url(&database.url).await.unwrap();
        let outbox: Outbox = database.outbox();
        let refused = outbox.write_all(&mut connection, vec![event("many"); 1_001]).await;
        // The same event twice would be refused for another reason.
        assert_eq!(refused.unwrap_err().code(), Code::DuplicateId);
        let many = || (0..1_001).map(|_| event("many"));
        let refused = outbox.write_all(&mut connection, many()).await.unwrap_err();
        assert_eq!(refused.code(), Code::TooManyEvents, "{refused}");
        assert_eq!(database.events().await.len(), 0);
        assert_eq!(outbox.write_all(&mut connection, many().take(1_000)).await.unwrap().len(), 1_000);
        database.remove().await;
    }
}

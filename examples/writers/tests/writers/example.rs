//! The example program as a user runs it.

use std::process::Command;

use postrider::Ident;
use postrider_testkit::servers::mysql::Kind;

use crate::Engine;
use crate::database::Database;

async fn place(driver: &str, database: &str, order: i64, cents: i64) -> std::process::Output {
    let mut example = Command::new(env!("CARGO_BIN_EXE_writers"));
    example.args([driver, database]).arg(order.to_string()).arg(cents.to_string());
    tokio::task::spawn_blocking(move || example.output().unwrap()).await.unwrap()
}

/// With each driver one order is placed, and one is refused after it and its event were written.
async fn check(at: Engine, drivers: &[&str]) {
    // The examples write to the outbox of the usual name.
    let Some(database) = Database::named(at, Ident::default()).await else { return };
    for (number, driver) in (1..).zip(drivers) {
        let url =
            if *driver == "rusqlite" { database.file().display().to_string() } else { database.url.clone() };
        let placed = place(driver, &url, number, 4_200).await;
        assert!(placed.status.success(), "{driver}: {placed:?}");
        let refused = place(driver, &url, -number, 0).await;
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("an order of nothing"), "{driver}: {said}");
    }
    let placed: Vec<i64> = (1..).take(drivers.len()).collect();
    assert_eq!(database.orders().await, placed, "{at:?}");
    let events = database.events().await;
    let told: Vec<_> =
        events.iter().map(|stored| stored.event.aggregate.as_ref().unwrap().id.as_str()).collect();
    assert_eq!(told, placed.iter().map(i64::to_string).collect::<Vec<_>>(), "{at:?}");
    database.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_place_an_order_and_its_event_or_neither() {
    check(Engine::Postgres, &["tokio-postgres", "sqlx-postgres", "sea-orm", "diesel-postgres"]).await;
    check(Engine::Sqlite, &["rusqlite", "sqlx-sqlite", "sea-orm"]).await;
    for kind in Kind::ALL {
        check(Engine::MySql(kind), &["mysql_async", "sqlx-mysql", "sea-orm", "diesel-mysql"]).await;
    }
}

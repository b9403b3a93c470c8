//! The stores on real databases: outboxes that are a log, and tables with a state per row.
//!
//! - `sqlite`, `postgres`, `mysql` (and MariaDB): `log` for the layout `postrider`, `row_state` for all others
//! - `adopt`: adopting a table of another layout, on every database
//! - `eventlog`: fan-out and handlers of the layout `eventlog`
//! - `inbox`: exactly-once effects, on every database
//! - `relay_cases`, `server_faults`: cases that are the same for every database
#![cfg(feature = "_store")]
#![cfg(test)]

#[cfg(all(unix, feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod adopt;
mod arrivals;
#[cfg(all(unix, feature = "postgres", feature = "sqlx-postgres", feature = "mysql"))]
mod eventlog;
#[cfg(all(unix, any(feature = "mysql", all(feature = "postgres", feature = "sqlx-postgres"))))]
mod holes;
#[cfg(all(unix, feature = "sqlite", feature = "postgres", feature = "sqlx-postgres", feature = "mysql"))]
mod inbox;
mod mapped;
#[cfg(all(unix, feature = "mysql"))]
mod mysql;
#[cfg(all(unix, feature = "postgres", feature = "sqlx-postgres"))]
mod postgres;
mod recording_sink;
mod relay_cases;
mod row_database;
mod outbox_events_publisher;
#[cfg(all(unix, any(feature = "mysql", all(feature = "postgres", feature = "sqlx-postgres"))))]
mod server_faults;
#[cfg(feature = "sqlite")]
mod sqlite;
mod test_layouts;

use postrider::{Code, Error};

/// An error of the test itself.
pub(crate) fn failed(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Code::StoreFailed, "the test could not do its part").with_source(cause)
}

/// The statement of [`StoreUnderTest::revise_parked`](postrider_testkit::conformance::store::StoreUnderTest) on a server.
pub(crate) fn revise_parked(name: &str, position: postrider::Position, state: Option<&str>) -> String {
    let change = match state {
        Some(state) => format!("UPDATE {{schema}}.parked SET state = '{state}', attempts = 0"),
        None => "DELETE FROM {schema}.parked".to_owned(),
    };
    format!("{change} WHERE subscription = '{name}' AND position = {position}")
}

//! Layout `eventlog`: events are fanned out to handlers, one notification each. Every case runs on every server that has
//! the layout.

mod calls;
mod expiry;
mod fan_out;
mod handling;
mod isolation;
mod kill_points;
mod other_programs;
mod page;
mod retention;

use std::sync::Arc;
use std::time::Duration;

use postrider::Result;
use postrider::layout::{FanOutPolicy, RowLayout};
use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::Store;

use uuid::Uuid;

use crate::row_database::RowDatabase;

/// One case on every server.
macro_rules! cases {
    ($($name:ident,)+) => {
        mod postgres {
            use super::super::on;
            use crate::postgres::row_state::case::Case;

            $(
                #[tokio::test]
                async fn $name() -> postrider::Result<()> {
                    on::<Case, _>(super::$name).await
                }
            )+
        }

        mod mysql {
            use super::super::on;
            use crate::mysql::log::case::MySql;
            use crate::mysql::row_state::case::RowCase;

            $(
                #[tokio::test]
                async fn $name() -> postrider::Result<()> {
                    on::<RowCase<MySql>, _>(super::$name).await
                }
            )+
        }

        mod mariadb {
            use super::super::on;
            use crate::mysql::log::case::MariaDb;
            use crate::mysql::row_state::case::RowCase;

            $(
                #[tokio::test]
                async fn $name() -> postrider::Result<()> {
                    on::<RowCase<MariaDb>, _>(super::$name).await
                }
            )+
        }
    };
}
pub(crate) use cases;

/// Runs a case on a new database, if the server is there.
pub(crate) async fn on<D: RowDatabase, F: Future<Output = Result<()>>>(
    case: impl FnOnce(EventlogDatabase<D>) -> F,
) -> Result<()> {
    if !D::is_available() {
        return Ok(());
    }
    case(EventlogDatabase(D::create(RowLayout::Eventlog).await?.with_fan_out(fast_fan_out()))).await
}

/// Settings under which a test need not wait.
pub(crate) fn fast_fan_out() -> FanOutPolicy {
    FanOutPolicy::default().poll(Duration::from_millis(20)).search_missed_every(Duration::from_millis(100))
}

/// A database with the tables of layout `eventlog`.
pub(crate) struct EventlogDatabase<D>(pub(crate) D);

impl<D: RowDatabase> EventlogDatabase<D> {
    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>> {
        self.0.open().await
    }

    pub(crate) async fn run(&self, sql: &str) -> Result<()> {
        self.0.execute(sql).await
    }

    /// The rows of a query, each as its values between spaces.
    pub(crate) async fn rows(&self, sql: &str) -> Result<Vec<String>> {
        Ok(self.0.rows(sql).await?.into_iter().map(|row| row.join(" ")).collect())
    }

    /// The first value of a query.
    pub(crate) async fn one(&self, sql: &str) -> Result<String> {
        Ok(self.rows(sql).await?.into_iter().next().unwrap_or_default())
    }

    /// Writes an event as a program that does not know Postrider would: `age` is an SQL expression, such as
    /// `interval '30' day`.
    pub(crate) async fn write_aged(
        &self,
        event_type: &str,
        model: &str,
        number: usize,
        age: &str,
    ) -> Result<String> {
        let id = Uuid::now_v7().to_string();
        let now = utc::<D>();
        self.run(&format!(
            "INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date,
                                 model_id, model_type, event_type, payload, event_date, delivered)
             VALUES ('{id}', 'shop', '{}', 'PlaceOrder', '{{\"by\": 7}}', {now}, {now}, '{model}', 'Order',
                     '{event_type}', '{{\"n\": {number}}}', {now} - {age}, FALSE)",
            Uuid::now_v7()
        ))
        .await?;
        Ok(id)
    }

    pub(crate) async fn write(&self, event_type: &str, model: &str, number: usize) -> Result<String> {
        self.write_aged(event_type, model, number, "interval '0' day").await
    }

    /// Records an action without events.
    pub(crate) async fn write_sentinel(&self) -> Result<()> {
        let now = utc::<D>();
        self.run(&format!(
            "INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date,
                                 event_date, delivered)
             VALUES ('{}', 'shop', '{}', 'Nothing', '{{}}', {now}, {now}, {now}, FALSE)",
            Uuid::now_v7(),
            Uuid::now_v7()
        ))
        .await
    }

    /// Waits until this many notifications are handled.
    pub(crate) async fn wait_until_handled(&self, notifications: usize) -> Result<()> {
        let handled = "SELECT count(*) FROM event_notifications WHERE state = 'SUCCEEDED'";
        self.wait_for(handled, &notifications.to_string()).await
    }

    /// Waits until a query returns this as its first value.
    pub(crate) async fn wait_for(&self, sql: &str, expected: &str) -> Result<()> {
        let mut found = String::new();
        let patience = if std::env::var_os("HANDLER_EVENTS").is_some() { 60_000 } else { 9_000 };
        for _ in 0..patience {
            found = self.one(sql).await?;
            if found == expected {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{sql} is {found:?}, not {expected:?}")
    }

    /// Starts a relay with these handlers.
    pub(crate) async fn relay(&self, handlers: impl IntoIterator<Item = Subscription>) -> Result<Relay> {
        Relay::builder().outbox(self.open().await?, handlers).spawn().await
    }
}

/// The current time in UTC, for a column without a zone.
pub(crate) fn utc<D: RowDatabase>() -> String {
    if D::NOW == "now()" { "(now() AT TIME ZONE 'UTC')".to_owned() } else { D::NOW.to_owned() }
}

/// Retries at once, and polls often.
pub(crate) fn fast_policy() -> Policy {
    Policy::for_notifications()
        .backoff_min(Duration::from_millis(20))
        .backoff_max(Duration::from_millis(40))
        .poll_max(Duration::from_millis(50))
        .lease(Duration::from_secs(2))
}

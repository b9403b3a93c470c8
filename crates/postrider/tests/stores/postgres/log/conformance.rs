//! The PostgreSQL store passes the suite of all stores.

use std::sync::Arc;

use postrider::store::Store;
use postrider::store::postgres::PostgresStore;
use postrider::{BoxFuture, Event, Position, Result};
use postrider_testkit::conformance::store::{OpenTransaction, StoreUnderTest};
use tokio_postgres::Client;

use super::case::{Case, failed};

postrider_testkit::store_conformance!(Case);

impl StoreUnderTest for Case {
    /// The last position at the time of the backup.
    type Backup = i64;

    const DATABASE: Option<&'static str> = Some("PostgreSQL");

    const ENDS_LEASES_WITH_SESSIONS: bool = true;

    fn is_available() -> bool {
        Case::is_available()
    }

    async fn fresh() -> Result<Self> {
        Case::new().await
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(PostgresStore::connect(&self.config).await?))
    }

    async fn write(&self, events: Vec<Event>) -> Result<Vec<Position>> {
        let written = self.outbox().write_all(&self.writer, events).await?;
        Ok(written.into_iter().map(|written| written.position).collect())
    }

    async fn begin(&self, events: Vec<Event>) -> Result<Box<dyn OpenTransaction>> {
        let client = self.another_writer().await?;
        client.batch_execute("BEGIN").await.map_err(failed)?;
        self.outbox().write_all(&client, events).await?;
        Ok(Box::new(Open(client)))
    }

    async fn waste_position(&self) -> Result<Position> {
        self.writer.batch_execute("BEGIN").await.map_err(failed)?;
        let position = self.write(vec![Event::new("wasted", "")]).await?[0];
        self.writer.batch_execute("ROLLBACK").await.map_err(failed)?;
        Ok(position)
    }

    async fn delete(&self, position: Position) -> Result<()> {
        self.run(&format!("DELETE FROM {{schema}}.events WHERE position = {position}")).await
    }

    async fn damage(&self, position: Position) -> Result<()> {
        self.run(&format!("UPDATE {{schema}}.events SET action = '{{}}' WHERE position = {position}")).await
    }

    async fn back_up(&self) -> Result<i64> {
        let last = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {schema}.events_position_seq";
        self.one(last).await
    }

    async fn restore(&self, last: i64) -> Result<()> {
        self.run(&format!("DELETE FROM {{schema}}.events WHERE position > {last}")).await?;
        self.run(&format!("SELECT setval('{{schema}}.events_position_seq', {}, false)", last + 1)).await
    }

    async fn skip_to(&self, position: Position) -> Result<()> {
        self.run(&format!("SELECT setval('{{schema}}.events_position_seq', {position})")).await
    }

    async fn widen(&self, position: Position, bytes: usize) -> Result<()> {
        self.run(&format!(
            "UPDATE {{schema}}.events SET headers = json_build_object('wide', repeat('w', {bytes}))
             WHERE position = {position}"
        ))
        .await
    }

    async fn revise_parked(&self, name: &str, position: Position, state: Option<&str>) -> Result<()> {
        self.run(&crate::revise_parked(name, position, state)).await
    }

    async fn expire_lease(&self, subscription: &str) -> Result<()> {
        self.run(&format!("UPDATE {{schema}}.leases SET expires_at = 'epoch' WHERE name = '{subscription}'"))
            .await
    }
}

struct Open(Client);

impl OpenTransaction for Open {
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.0.batch_execute("COMMIT").await.map_err(failed) })
    }

    fn roll_back(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.0.batch_execute("ROLLBACK").await.map_err(failed) })
    }
}

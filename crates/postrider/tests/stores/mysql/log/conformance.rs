//! The store passes the suite of all stores, on both servers.

use std::sync::Arc;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider::store::Store;
use postrider::{BoxFuture, Event, Position, Result};
use postrider_testkit::conformance::store::{OpenTransaction, StoreUnderTest};

use super::case::{Case, ServerKind, failed};

mod mysql {
    use crate::mysql::log::case::{Case, MySql};

    postrider_testkit::store_conformance!(Case<MySql>);
}

mod mariadb {
    use crate::mysql::log::case::{Case, MariaDb};

    postrider_testkit::store_conformance!(Case<MariaDb>);
}

impl<W: ServerKind> StoreUnderTest for Case<W> {
    /// The last position at the time of the backup.
    type Backup = i64;

    const DATABASE: Option<&'static str> = Some(W::NAME);

    const ENDS_LEASES_WITH_SESSIONS: bool = true;

    fn is_available() -> bool {
        Case::<W>::is_available()
    }

    async fn fresh() -> Result<Self> {
        Case::new().await
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.store().await?))
    }

    async fn write(&self, events: Vec<Event>) -> Result<Vec<Position>> {
        let mut client = self.client.lock().await;
        client.query_drop("START TRANSACTION").await.map_err(failed)?;
        let positions = self.insert(&mut client, &events).await?;
        client.query_drop("COMMIT").await.map_err(failed)?;
        Ok(positions)
    }

    async fn begin(&self, events: Vec<Event>) -> Result<Box<dyn OpenTransaction>> {
        let mut client = self.another().await?;
        client.query_drop("START TRANSACTION").await.map_err(failed)?;
        self.insert(&mut client, &events).await?;
        Ok(Box::new(Open(client)))
    }

    async fn waste_position(&self) -> Result<Position> {
        let mut client = self.client.lock().await;
        client.query_drop("START TRANSACTION").await.map_err(failed)?;
        let position = self.insert(&mut client, &[Event::new("wasted", "")]).await?[0];
        client.query_drop("ROLLBACK").await.map_err(failed)?;
        Ok(position)
    }

    async fn delete(&self, position: Position) -> Result<()> {
        self.run(&format!("DELETE FROM {{schema}}.events WHERE position = {position}")).await
    }

    async fn damage(&self, position: Position) -> Result<()> {
        self.run(&format!("UPDATE {{schema}}.events SET action = '{{}}' WHERE position = {position}")).await
    }

    async fn back_up(&self) -> Result<i64> {
        self.one(
            "SELECT COALESCE(auto_increment, 1) - 1 FROM information_schema.tables
             WHERE table_schema = '{schema}' AND table_name = 'events'",
        )
        .await
    }

    async fn restore(&self, last: i64) -> Result<()> {
        self.run(&format!("DELETE FROM {{schema}}.events WHERE position > {last}")).await?;
        self.run(&format!("ALTER TABLE {{schema}}.events AUTO_INCREMENT = {}", last + 1)).await
    }

    async fn skip_to(&self, position: Position) -> Result<()> {
        self.run(&format!("ALTER TABLE {{schema}}.events AUTO_INCREMENT = {}", position.next())).await
    }

    async fn widen(&self, position: Position, bytes: usize) -> Result<()> {
        self.run(&format!(
            "UPDATE {{schema}}.events SET headers = CONCAT('{{\"wide\":\"', REPEAT('w', {bytes}), '\"}}')
             WHERE position = {position}"
        ))
        .await
    }

    async fn revise_parked(&self, name: &str, position: Position, state: Option<&str>) -> Result<()> {
        self.run(&crate::revise_parked(name, position, state)).await
    }

    async fn expire_lease(&self, subscription: &str) -> Result<()> {
        self.run(&format!(
            "UPDATE {{schema}}.leases SET expires_at = '1970-01-01' WHERE name = '{subscription}'"
        ))
        .await
    }
}

struct Open(Conn);

impl OpenTransaction for Open {
    fn commit(mut self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.0.query_drop("COMMIT").await.map_err(failed) })
    }

    fn roll_back(mut self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.0.query_drop("ROLLBACK").await.map_err(failed) })
    }
}

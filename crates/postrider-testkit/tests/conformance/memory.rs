//! The memory store, which the simulator uses, passes the suite of all stores.

use std::sync::Arc;
use std::time::Duration;

use postrider::ledger::ParkedState;
use postrider::store::Store;
use postrider::{BoxFuture, Event, Position, Result};
use postrider_testkit::ManualClock;
use postrider_testkit::conformance::store::{OpenTransaction, StoreUnderTest};
use postrider_testkit::memory::{Log, MemoryStore, TransactionId};

postrider_testkit::store_conformance!(Memory);

struct Memory(MemoryStore);

impl StoreUnderTest for Memory {
    type Backup = Log;

    async fn fresh() -> Result<Self> {
        Ok(Self(MemoryStore::new(ManualClock::default())))
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.0.clone()))
    }

    async fn write(&self, events: Vec<Event>) -> Result<Vec<Position>> {
        let log = &mut self.0.database().log;
        let transaction = log.begin();
        let positions = events.into_iter().filter_map(|event| log.insert(transaction, event)).collect();
        log.commit(transaction);
        Ok(positions)
    }

    async fn begin(&self, events: Vec<Event>) -> Result<Box<dyn OpenTransaction>> {
        let log = &mut self.0.database().log;
        let transaction = log.begin();
        events.into_iter().for_each(|event| _ = log.insert(transaction, event));
        Ok(Box::new(Open(self.0.clone(), transaction)))
    }

    async fn waste_position(&self) -> Result<Position> {
        let log = &mut self.0.database().log;
        let transaction = log.begin();
        let position = log.insert(transaction, Event::new("wasted", "")).unwrap_or_default();
        log.rollback(transaction);
        Ok(position)
    }

    async fn delete(&self, position: Position) -> Result<()> {
        self.0.database().log.delete(position);
        Ok(())
    }

    async fn damage(&self, position: Position) -> Result<()> {
        self.0.database().log.damage(position);
        Ok(())
    }

    async fn back_up(&self) -> Result<Log> {
        Ok(self.0.database().log.backup())
    }

    async fn restore(&self, backup: Log) -> Result<()> {
        self.0.database().log.restore(&backup);
        Ok(())
    }

    async fn skip_to(&self, position: Position) -> Result<()> {
        self.0.database().log.skip_to(position);
        Ok(())
    }

    async fn widen(&self, position: Position, bytes: usize) -> Result<()> {
        self.0.database().log.change(position, |event| {
            event.headers.set("wide", "w".repeat(bytes));
        });
        Ok(())
    }

    async fn revise_parked(&self, name: &str, position: Position, state: Option<&str>) -> Result<()> {
        let mut database = self.0.database();
        let parked = &mut database.subscription_mut(name)?.parked;
        match state.and_then(ParkedState::from_word) {
            Some(state) => parked.entry(position).and_modify(|row| (row.state, row.attempts) = (state, 0)),
            None => return Ok(_ = parked.remove(&position)),
        };
        Ok(())
    }

    async fn expire_lease(&self, subscription: &str) -> Result<()> {
        if let Some(lease) = &mut self.0.database().subscription_mut(subscription)?.lease {
            lease.until = Duration::ZERO;
        }
        Ok(())
    }
}

struct Open(MemoryStore, TransactionId);

impl OpenTransaction for Open {
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        self.0.database().log.commit(self.1);
        Box::pin(std::future::ready(Ok(())))
    }

    fn roll_back(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        self.0.database().log.rollback(self.1);
        Box::pin(std::future::ready(Ok(())))
    }
}

//! A database as a trait object, so that every case is compiled once instead of once per database.

use std::any::Any;
use std::sync::Arc;

use postrider::store::Store;
use postrider::{BoxFuture, Event, Position, Result};

use super::{OpenTransaction, StoreUnderTest, stage};

/// The databases of a suite.
pub struct Databases(fn() -> BoxFuture<'static, Result<Box<dyn Database>>>);

impl Databases {
    /// Those of a type.
    pub fn of<T: StoreUnderTest + 'static>() -> Self {
        Self(|| Box::pin(async { Ok(Box::new(T::fresh().await?) as Box<dyn Database>) }))
    }

    /// An outbox without events and without subscriptions.
    pub(super) async fn fresh(&self) -> Result<Box<dyn Database>> {
        (self.0)().await
    }
}

/// [`StoreUnderTest::Backup`] of any type.
pub struct Backup(Box<dyn Any + Send>);

/// [`StoreUnderTest`] without its type.
pub trait Database: Send + Sync {
    /// [`StoreUnderTest::open`]
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>>>;

    /// [`StoreUnderTest::write`]
    fn write(&self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Position>>>;

    /// [`StoreUnderTest::begin`]
    fn begin(&self, events: Vec<Event>) -> BoxFuture<'_, Result<Box<dyn OpenTransaction>>>;

    /// [`StoreUnderTest::waste_position`]
    fn waste_position(&self) -> BoxFuture<'_, Result<Position>>;

    /// [`StoreUnderTest::delete`]
    fn delete(&self, position: Position) -> BoxFuture<'_, Result<()>>;

    /// [`StoreUnderTest::damage`]
    fn damage(&self, position: Position) -> BoxFuture<'_, Result<()>>;

    /// [`StoreUnderTest::back_up`]
    fn back_up(&self) -> BoxFuture<'_, Result<Backup>>;

    /// [`StoreUnderTest::restore`]
    fn restore(&self, backup: Backup) -> BoxFuture<'_, Result<()>>;

    /// [`StoreUnderTest::skip_to`]
    fn skip_to(&self, position: Position) -> BoxFuture<'_, Result<()>>;

    /// [`StoreUnderTest::widen`]
    fn widen(&self, position: Position, bytes: usize) -> BoxFuture<'_, Result<()>>;

    /// [`StoreUnderTest::revise_parked`]
    fn revise_parked<'a>(
        &'a self,
        subscription: &'a str,
        position: Position,
        state: Option<&'a str>,
    ) -> BoxFuture<'a, Result<()>>;

    /// [`StoreUnderTest::expire_lease`]
    fn expire_lease<'a>(&'a self, subscription: &'a str) -> BoxFuture<'a, Result<()>>;

    /// See [`StoreUnderTest::SHOWS_WRITERS`].
    fn shows_writers(&self) -> bool;

    /// See [`StoreUnderTest::ENDS_LEASES_WITH_SESSIONS`].
    fn ends_leases_with_sessions(&self) -> bool;
}

impl<T: StoreUnderTest> Database for T
where
    T::Backup: 'static,
{
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>>> {
        Box::pin(StoreUnderTest::open(self))
    }

    fn write(&self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Position>>> {
        Box::pin(StoreUnderTest::write(self, events))
    }

    fn begin(&self, events: Vec<Event>) -> BoxFuture<'_, Result<Box<dyn OpenTransaction>>> {
        Box::pin(StoreUnderTest::begin(self, events))
    }

    fn waste_position(&self) -> BoxFuture<'_, Result<Position>> {
        Box::pin(StoreUnderTest::waste_position(self))
    }

    fn delete(&self, position: Position) -> BoxFuture<'_, Result<()>> {
        Box::pin(StoreUnderTest::delete(self, position))
    }

    fn damage(&self, position: Position) -> BoxFuture<'_, Result<()>> {
        Box::pin(StoreUnderTest::damage(self, position))
    }

    fn back_up(&self) -> BoxFuture<'_, Result<Backup>> {
        Box::pin(async move { Ok(Backup(Box::new(StoreUnderTest::back_up(self).await?))) })
    }

    fn restore(&self, backup: Backup) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let backup =
                backup.0.downcast().map_err(|_| stage::failed("the backup is of another database"))?;
            StoreUnderTest::restore(self, *backup).await
        })
    }

    fn skip_to(&self, position: Position) -> BoxFuture<'_, Result<()>> {
        Box::pin(StoreUnderTest::skip_to(self, position))
    }

    fn widen(&self, position: Position, bytes: usize) -> BoxFuture<'_, Result<()>> {
        Box::pin(StoreUnderTest::widen(self, position, bytes))
    }

    fn revise_parked<'a>(
        &'a self,
        subscription: &'a str,
        position: Position,
        state: Option<&'a str>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(StoreUnderTest::revise_parked(self, subscription, position, state))
    }

    fn shows_writers(&self) -> bool {
        T::SHOWS_WRITERS
    }

    fn ends_leases_with_sessions(&self) -> bool {
        T::ENDS_LEASES_WITH_SESSIONS
    }

    fn expire_lease<'a>(&'a self, subscription: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(StoreUnderTest::expire_lease(self, subscription))
    }
}

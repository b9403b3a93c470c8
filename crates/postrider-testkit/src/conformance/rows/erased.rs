//! A table as a trait object, so that every case is compiled once instead of once per table.

use std::sync::Arc;

use postrider::store::Store;
use postrider::{BoxFuture, Result};

use super::{Refusing, RowState, RowsUnderTest};

/// The tables of a suite, and the properties that they share.
pub struct Tables {
    fresh: fn() -> BoxFuture<'static, Result<Box<dyn Table>>>,
    marks: bool,
    says_delivered: bool,
    updates_wait: bool,
}

impl Tables {
    /// Those of a type.
    pub fn of<T: RowsUnderTest + 'static>() -> Self {
        Self {
            fresh: || Box::pin(async { Ok(Box::new(T::fresh().await?) as Box<dyn Table>) }),
            marks: T::MARKS,
            says_delivered: T::SAYS_DELIVERED,
            updates_wait: T::UPDATES_WAIT,
        }
    }

    /// A table without rows and without a subscription.
    pub(super) async fn fresh(&self) -> Result<Box<dyn Table>> {
        (self.fresh)().await
    }

    /// Whether rows are marked while they are being published.
    pub(super) fn marks(&self) -> bool {
        self.marks
    }

    /// Whether an update of a row that is being published waits.
    pub(super) fn updates_wait(&self) -> bool {
        self.updates_wait
    }

    /// Whether the row itself records that it was delivered.
    pub(super) fn says_delivered(&self) -> bool {
        self.says_delivered
    }
}

/// [`RowsUnderTest`] without its type.
pub trait Table: Send + Sync {
    /// [`RowsUnderTest::open`]
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>>>;

    /// [`RowsUnderTest::write`]
    fn write<'a>(&'a self, key: &'a str, rows: usize) -> BoxFuture<'a, Result<Vec<String>>>;

    /// [`RowsUnderTest::row`]
    fn row<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<(RowState, u32)>>>;

    /// [`RowsUnderTest::put_back`]
    fn put_back<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>>;

    /// [`RowsUnderTest::deliver_elsewhere`]
    fn deliver_elsewhere<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>>;

    /// [`RowsUnderTest::refuse`]
    fn refuse<'a>(&'a self, ids: &'a [&'a str], how: Refusing) -> BoxFuture<'a, Result<bool>>;

    /// [`RowsUnderTest::refuse_waiting`]
    fn refuse_waiting<'a>(&'a self, ids: &'a [&'a str]) -> BoxFuture<'a, Result<bool>>;

    /// [`RowsUnderTest::count_to_the_end`]
    fn count_to_the_end<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool>>;

    /// [`RowsUnderTest::expire_lease`]
    fn expire_lease(&self) -> BoxFuture<'_, Result<()>>;

    /// [`RowsUnderTest::age`]
    fn age(&self) -> BoxFuture<'_, Result<()>>;
}

impl<T: RowsUnderTest> Table for T {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>>> {
        Box::pin(RowsUnderTest::open(self))
    }

    fn write<'a>(&'a self, key: &'a str, rows: usize) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(RowsUnderTest::write(self, key, rows))
    }

    fn row<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<(RowState, u32)>>> {
        Box::pin(RowsUnderTest::row(self, id))
    }

    fn put_back<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(RowsUnderTest::put_back(self, id))
    }

    fn deliver_elsewhere<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(RowsUnderTest::deliver_elsewhere(self, id))
    }

    fn refuse<'a>(&'a self, ids: &'a [&'a str], how: Refusing) -> BoxFuture<'a, Result<bool>> {
        Box::pin(RowsUnderTest::refuse(self, ids, how))
    }

    fn refuse_waiting<'a>(&'a self, ids: &'a [&'a str]) -> BoxFuture<'a, Result<bool>> {
        Box::pin(RowsUnderTest::refuse_waiting(self, ids))
    }

    fn count_to_the_end<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(RowsUnderTest::count_to_the_end(self, id))
    }

    fn expire_lease(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(RowsUnderTest::expire_lease(self))
    }

    fn age(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(RowsUnderTest::age(self))
    }
}

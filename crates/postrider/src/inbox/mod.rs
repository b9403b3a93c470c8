//! Receiving: an event has its effect once per consumer group, however often it is delivered.
//!
//! Delivery is at least once, so a consumer receives some events again. [`Inbox::once`] inserts a row with the event's id
//! into the table `inbox`, in the consumer's own transaction, and runs the effect only if that row is new. The row and
//! the effect are committed together, or neither is.
//!
//! ```
//! # #[cfg(feature = "sqlite")] {
//! # let folder = tempfile::tempdir().unwrap();
//! # let file = folder.path().join("mail.db");
//! use postrider::inbox::{Inbox, Once};
//! use postrider::store::sqlite::SqliteStore;
//!
//! SqliteStore::migrate(&file)?;
//! let mut database = rusqlite::Connection::open(&file)?;
//! database.execute("CREATE TABLE mails (order_id INTEGER)", [])?;
//! let inbox = Inbox::new();
//!
//! # let event_id = uuid::Uuid::now_v7();
//! let mut receive = |order: i64| {
//!     let tx = database.transaction()?;
//!     let once = inbox.once_blocking(&tx, "mail", event_id, |tx| {
//!         tx.execute("INSERT INTO mails (order_id) VALUES (?)", [order])?;
//!         Ok::<_, Box<dyn std::error::Error>>(())
//!     })?;
//!     tx.commit()?; // the mail and the inbox row, or neither
//!     Ok::<_, Box<dyn std::error::Error>>(once) // now acknowledge the message
//! };
//! assert_eq!(receive(7)?, Once::Applied(()));
//! assert_eq!(receive(7)?, Once::Duplicate); // delivered again: no second mail
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With every other driver the effect is an async closure, and the call is awaited:
//!
//! ```ignore
//! let mut tx = pool.begin().await?;
//! inbox.once(&mut tx, "mail", event_id, async |tx| queue_mail(tx, &order).await).await?;
//! tx.commit().await?;
//! // now acknowledge the message
//! ```
//!
//! The order is always the same: begin, `once`, commit, acknowledge. A consumer that acknowledges before the commit loses
//! the event if it crashes in between; one that acknowledges after it receives the event again, and the inbox reports
//! the duplicate.

#[cfg(any(feature = "_mysql", feature = "_postgres", feature = "_sqlite"))]
pub(crate) mod executor;
mod handle;
mod incoming;
pub(crate) mod mysql;
pub(crate) mod postgres;
#[cfg(any(feature = "_mysql", feature = "_postgres", feature = "_sqlite"))]
pub(crate) mod processed_events;
pub(crate) mod sqlite;
mod step;

pub use handle::Inbox;
pub use incoming::Incoming;
pub(crate) use step::micros;
pub use step::{InboxStep, InboxTable};

/// Whether an event is new to a consumer group: the answer of [`Inbox::receive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "run the effect only if the event was received for the first time"]
pub enum Received {
    /// The inbox row was inserted. Run the effect in the same transaction.
    First,
    /// The group has processed the event before. Commit or roll back, and acknowledge the message.
    Duplicate,
}

/// What became of a delivery: the answer of [`Inbox::once`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Once<T> {
    /// The effect ran, and returned this. It counts once the transaction is committed.
    Applied(T),
    /// The group has processed the event before. The effect did not run.
    Duplicate,
}

impl<T> Once<T> {
    /// What the effect returned; `None` for a duplicate.
    pub fn applied(self) -> Option<T> {
        match self {
            Self::Applied(answer) => Some(answer),
            Self::Duplicate => None,
        }
    }

    /// Whether the effect did not run, because the group has processed the event before.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Self::Duplicate)
    }
}

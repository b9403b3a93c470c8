//! Receiving: an event has its effect once per consumer group, however often it is delivered.
//!
//! Delivery is at least once, so a consumer receives some events again. [`Inbox::once`] inserts a row with the event's id
//! into the table `inbox`, in the consumer's own transaction, and runs the effect only if that row is new. The row and
//! the effect are committed together, or neither is.
//!
//! ```
//! # #[cfg(all(feature = "sqlite", feature = "sqlx-sqlite"))]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! # use sqlx::Connection as _;
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("mail.db");
//! # postrider::store::sqlite::SqliteStore::migrate(&file)?;
//! # let mut db = sqlx::SqliteConnection::connect(&format!("sqlite://{}", file.display())).await?;
//! # sqlx::query("CREATE TABLE mails (order_id INTEGER)").execute(&mut db).await?;
//! # let event_id = uuid::Uuid::now_v7();
//! use postrider::inbox::{Inbox, Once};
//! use sqlx::{Sqlite, Transaction};
//!
//! /// The effect: any function of yours that works in a transaction.
//! async fn queue_mail(tx: &mut Transaction<'_, Sqlite>, order: i64) -> Result<(), BoxError> {
//!     sqlx::query("INSERT INTO mails (order_id) VALUES (?)").bind(order).execute(&mut **tx).await?;
//!     Ok(())
//! }
//!
//! let inbox = Inbox::new();
//!
//! let mut tx = db.begin().await?;
//! let once = inbox.once(&mut tx, "mail", event_id, async |tx| queue_mail(tx, 42).await).await?;
//! tx.commit().await?; // the mail and the inbox row, or neither
//! // ... now acknowledge the message
//! assert_eq!(once, Once::Applied(()));
//!
//! // The event is delivered again: no second mail.
//! let mut tx = db.begin().await?;
//! let again = inbox.once(&mut tx, "mail", event_id, async |tx| queue_mail(tx, 42).await).await?;
//! tx.commit().await?;
//! assert_eq!(again, Once::Duplicate);
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "sqlite", feature = "sqlx-sqlite")))]
//! # fn main() {}
//! # type BoxError = Box<dyn std::error::Error + Send + Sync>;
//! ```
//!
//! rusqlite blocks, so its method is [`Inbox::once_blocking`]:
//!
//! ```
//! # #[cfg(feature = "sqlite")] {
//! # let folder = tempfile::tempdir().unwrap();
//! # let file = folder.path().join("mail.db");
//! # postrider::store::sqlite::SqliteStore::migrate(&file)?;
//! # let mut database = rusqlite::Connection::open(&file)?;
//! # database.execute("CREATE TABLE mails (order_id INTEGER)", [])?;
//! # let (inbox, event_id) = (postrider::Inbox::new(), uuid::Uuid::now_v7());
//! # type BoxError = Box<dyn std::error::Error>;
//! let tx = database.transaction()?;
//! inbox.once_blocking(&tx, "mail", event_id, |tx| {
//!     tx.execute("INSERT INTO mails (order_id) VALUES (?)", [42])?;
//!     Ok::<_, BoxError>(())
//! })?;
//! tx.commit()?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The order is always the same: begin, `once`, commit, acknowledge. A consumer that acknowledges before the commit loses
//! the event if it crashes in between; one that acknowledges after it receives the event again, and the inbox reports
//! the duplicate.

mod handle;
mod incoming;
#[cfg(feature = "_writer")]
pub(crate) mod mysql;
#[cfg(feature = "_writer")]
pub(crate) mod postgres;
#[cfg(feature = "_async")]
pub(crate) mod processed_events;
#[cfg(feature = "_writer")]
pub(crate) mod sqlite;
#[cfg(feature = "_writer")]
pub(crate) mod statements;
mod step;

pub use handle::Inbox;
pub use incoming::Incoming;
#[cfg(feature = "_store")]
pub(crate) use step::retention_micros;
#[doc(hidden)]
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

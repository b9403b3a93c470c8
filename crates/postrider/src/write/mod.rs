//! Writing: events go into the outbox in the caller's own transaction, next to the rows that they describe.
//!
//! Every driver has the same method: [`Outbox::write`] with the caller's transaction. It returns a result with
//! rusqlite, and a future with the other drivers.
//!
//! ```
//! # #[cfg(feature = "sqlite")] {
//! # let folder = tempfile::tempdir().unwrap();
//! # let file = folder.path().join("shop.db");
//! use postrider::{Event, Outbox, store::sqlite::SqliteStore};
//!
//! SqliteStore::migrate(&file)?;
//! let mut database = rusqlite::Connection::open(&file).unwrap();
//! let outbox = Outbox::new().namespace("shop");
//!
//! let tx = database.transaction().unwrap();
//! // ... the state ...
//! let written = outbox.write(&tx, Event::new("order.placed", "{}").with_aggregate("Order", "7"))?;
//! tx.commit().unwrap();
//! assert_eq!(written.position.get(), 1);
//! # }
//! # Ok::<(), postrider::Error>(())
//! ```

#[macro_use]
#[allow(unused_macros, reason = "which of them is used depends on the features")]
mod transaction_impls;

#[allow(dead_code, reason = "what is used depends on the driver")]
mod action_record;
#[cfg(feature = "_writer")]
#[allow(dead_code, reason = "what is used depends on the driver")]
mod columns;
#[cfg(any(feature = "diesel-mysql", feature = "diesel-postgres"))]
mod diesel_error;
#[cfg(feature = "diesel-mysql")]
mod diesel_mysql;
#[cfg(feature = "diesel-postgres")]
mod diesel_postgres;
mod host;
#[cfg(feature = "_mysql")]
mod mysql;
#[cfg(feature = "mysql_async")]
mod mysql_async;
#[cfg(feature = "_mysql_driver")]
mod mysql_driver;
mod outbox;
#[cfg(feature = "_postgres")]
mod postgres;
mod rows;
#[cfg(feature = "_mysql_driver")]
mod rows_mysql;
#[cfg(feature = "_postgres")]
mod rows_postgres;
#[cfg(feature = "_sqlite_driver")]
mod rows_sqlite;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(feature = "sea-orm")]
mod sea_orm;
#[cfg(feature = "_sqlite")]
mod sqlite;
#[cfg(feature = "sqlx-mysql")]
mod sqlx_mysql;
#[cfg(feature = "sqlx-postgres")]
mod sqlx_postgres;
#[cfg(feature = "sqlx-sqlite")]
mod sqlx_sqlite;
mod step;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;
mod transaction;

pub use action_record::ActionRecord;
#[doc(hidden)]
pub use action_record::ActionStep;
#[cfg(feature = "_writer")]
pub(crate) use columns::Value;
#[cfg(feature = "_server")]
pub(crate) use columns::names as event_column_names;
pub use outbox::Outbox;
#[doc(hidden)]
pub use step::Step;
#[doc(hidden)]
pub use transaction::Batch;
pub use transaction::{AsyncTransaction, BlockingTransaction, Transaction};

/// Which code an error of each driver has; the executor of actions needs it, too.
#[cfg(feature = "actions")]
#[allow(dead_code, unused_imports, reason = "what is used depends on the driver")]
pub(crate) mod driver_error {
    #[cfg(any(feature = "diesel-mysql", feature = "diesel-postgres"))]
    pub(crate) use super::diesel_error::is_rolled_back as is_rolled_back_by_diesel;
    #[cfg(feature = "diesel-mysql")]
    pub(crate) use super::diesel_mysql::error as diesel_mysql;
    #[cfg(feature = "diesel-postgres")]
    pub(crate) use super::diesel_postgres::error as diesel_postgres;
    #[cfg(feature = "mysql_async")]
    pub(crate) use super::mysql_async::error as mysql_async;
    #[cfg(feature = "rusqlite")]
    pub(crate) use super::rusqlite::error as rusqlite;
    #[cfg(feature = "sea-orm")]
    pub(crate) use super::sea_orm::error as sea_orm;
    #[cfg(feature = "sqlx-mysql")]
    pub(crate) use super::sqlx_mysql::error as sqlx_mysql;
    #[cfg(feature = "sqlx-postgres")]
    pub(crate) use super::sqlx_postgres::error as sqlx_postgres;
    #[cfg(feature = "sqlx-sqlite")]
    pub(crate) use super::sqlx_sqlite::error as sqlx_sqlite;
    #[cfg(feature = "tokio-postgres")]
    pub(crate) use super::tokio_postgres::error as tokio_postgres;
}

use uuid::Uuid;

use crate::Position;

/// An event that was inserted. It is in the outbox once the caller commits; if the process dies before, it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The event's id.
    pub id: Uuid,
    /// Its position in the outbox.
    pub position: Position,
}

impl Written {
    /// For code that writes events in its own way, such as an `EventPersister` of actions.
    pub const fn new(id: Uuid, position: Position) -> Self {
        Self { id, position }
    }
}

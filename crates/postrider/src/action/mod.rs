//! Actions: business code stages rows and events on a plan, and an executor writes both in one transaction.
//!
//! ```
//! # #[cfg(feature = "sqlx-sqlite")] mod example {
//! use postrider::Event;
//! use postrider::action::{Action, Model, Plan, SqlxRepository};
//! use uuid::Uuid;
//!
//! #[derive(Model)]
//! #[model(table = "wallets")]
//! struct Wallet { id: Uuid, balance: i64, version: i64 }
//!
//! #[derive(serde::Serialize, Event)]
//! #[event(model = Wallet)]
//! struct MoneyDeposited { amount: i64 }
//!
//! #[derive(serde::Serialize)]
//! struct DepositParams { wallet: Uuid, amount: i64 }
//!
//! #[derive(Action)]
//! struct Deposit { wallets: SqlxRepository<Wallet, sqlx::Sqlite> }
//!
//! impl Action for Deposit {
//!     type Params = DepositParams;
//!     type Output = i64;
//!     type Error = postrider::Error;
//!
//!     async fn perform(&self, plan: &mut Plan, params: &DepositParams) -> Result<i64, postrider::Error> {
//!         let mut wallet = self.wallets.find(&params.wallet).await?;
//!         wallet.balance += params.amount;
//!         let balance = wallet.balance;
//!         plan.update(wallet)?.event(&MoneyDeposited { amount: params.amount })?;
//!         Ok(balance)
//!     }
//! }
//! # }
//! ```
//!
//! 1. [`Executor::execute`] calls [`Action::perform`], which reads and stages, and writes nothing.
//! 2. The executor opens one transaction: the staged rows first, then the events, then COMMIT.
//! 3. If another transaction changed a row in the meantime, everything is rolled back and the action runs again with a new plan.
//! 4. After the commit, a relay in the same process is woken.
//!
//! The decisions behind this are in `adr/0068-actions.md` of the repository.

mod builder;
mod call;
mod connections;
mod database;
mod entity;
mod executor;
#[cfg(feature = "mysql_async")]
mod mysql_async;
mod names;
mod persist;
mod plan;
mod repository;
mod retry;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(feature = "sea-orm")]
mod sea_orm;
mod shard;
#[cfg(any(feature = "sqlx-mysql", feature = "sqlx-postgres", feature = "sqlx-sqlite"))]
mod sqlx;
mod staged;
mod telemetry;

pub use builder::ExecutorBuilder;
pub use call::Call;
pub use connections::{Connection, Connections, OpenTransaction};
pub use database::{CommitError, Database};
pub use entity::{Entity, Model, Named, Table};
pub use executor::Executor;
pub use persist::{EventPersister, Performed};
pub use plan::{ChangeKind, Plan, StagedRow};
pub use repository::Repository;
pub use retry::{Retry, RetryOn};
#[cfg(feature = "rusqlite")]
pub use rusqlite::{RusqliteConnection, RusqliteTransaction};
pub use shard::{AcrossShards, Shards};
#[cfg(any(feature = "sqlx-mysql", feature = "sqlx-postgres", feature = "sqlx-sqlite"))]
pub use sqlx::{SqlxDialect, SqlxRepository, SqlxRow};

pub use staged::{Staged, StagedAll};

pub use crate::Shard;
pub use postrider_derive::{Action, Entity, Model};

use serde::Serialize;

use crate::Error;

/// A unit of business code. Its fields are what it needs to read: repositories, clients, settings.
///
/// `#[derive(Action)]` gives it its name, the type's own name without path, which is stored with every event;
/// `#[action(name = "...")]` fixes another one.
///
/// An action may run more than once for one call of [`Executor::execute`]: after a stale version it starts again. Calls to
/// other services belong into a handler of the event, not into an action.
pub trait Action: Named + Send + Sync + 'static {
    /// What it is called with. Stored as JSON with every event.
    type Params: Serialize + Send + Sync;
    /// What it returns to the caller.
    type Output: Send;
    /// Its own errors, and those of the executor.
    type Error: From<Error> + Send;

    /// Reads, decides, and stages the changes and their events on the plan. It must not write to the database.
    ///
    /// # Errors
    /// An error ends the execution; nothing is written.
    fn perform(
        &self,
        plan: &mut Plan,
        params: &Self::Params,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send;
}

/// Without sqlx, a table has only its names.
#[cfg(not(any(feature = "sqlx-mysql", feature = "sqlx-postgres", feature = "sqlx-sqlite")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sqlx_row {
    ($($row:tt)*) => {};
}

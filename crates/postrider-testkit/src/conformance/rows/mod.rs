//! What every table with a state per row must support, in every layout and on every database.
//!
//! Implement [`RowsUnderTest`] and call [`rows_conformance!`](crate::rows_conformance): each case becomes a separate
//! test. A case starts with an empty table, so cases run in parallel.

pub mod explain;
pub mod give_up;
pub mod maintain;
pub mod operate;
pub mod owners;
pub mod park;
pub mod refused;
pub mod settle;
pub mod subscribe;

mod cases;
mod erased;
mod stage;

pub use erased::{Table, Tables};

use std::sync::Arc;

use postrider::Result;
use postrider::store::Store;

/// The number of attempts after which a row is given up, in every case.
pub const ATTEMPTS_MAX: u32 = 3;

/// The state of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowState {
    /// It was not attempted yet.
    Waiting,
    /// It is being published, if the layout has a state for that.
    InFlight,
    /// Delivered.
    Done,
    /// Failed, and due again now or later.
    Retry,
    /// Never due again.
    GivenUp,
}

/// How a table refuses the UPDATE of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusing {
    /// An UPDATE fails.
    WithAnError,
    /// An UPDATE succeeds and changes nothing.
    InSilence,
}

/// A table to run the suite on, and the operations of the suite that a store does not have.
pub trait RowsUnderTest: Sized + Send + Sync {
    /// Whether rows are marked while they are being published.
    const MARKS: bool;

    /// Whether the row itself records that it was delivered. Otherwise only Postrider's note does.
    const SAYS_DELIVERED: bool = true;

    /// Whether other programs, and another owner, wait for the lock of a row that is being published before they can update
    /// it. Cases that update such rows are left out: GUARANTEES.md lists this as a limit.
    const UPDATES_WAIT: bool = false;

    /// Whether this machine has what the suite needs; if not, every case passes without running.
    fn is_available() -> bool {
        true
    }

    /// A table without rows and without a subscription.
    fn fresh() -> impl Future<Output = Result<Self>> + Send;

    /// Opens the table again, as another process would, with [`ATTEMPTS_MAX`].
    fn open(&self) -> impl Future<Output = Result<Arc<dyn Store>>> + Send;

    /// Writes rows of one key in one transaction, with one statement per row, as a program without Postrider would.
    /// Returns their ids as text.
    fn write(&self, key: &str, rows: usize) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// The state and attempts of a row; `None` if it does not exist.
    fn row(&self, id: &str) -> impl Future<Output = Result<Option<(RowState, u32)>>> + Send;

    /// Makes a row due again, as an operator would.
    fn put_back(&self, id: &str) -> impl Future<Output = Result<()>> + Send;

    /// Marks a row as delivered, as another publisher would.
    fn deliver_elsewhere(&self, id: &str) -> impl Future<Output = Result<()>> + Send;

    /// Makes the table refuse every UPDATE of these rows from now on. Returns whether it can.
    fn refuse(&self, ids: &[&str], how: Refusing) -> impl Future<Output = Result<bool>> + Send;

    /// Makes the table refuse to set these rows back to waiting once they are marked. Returns whether it can.
    fn refuse_waiting(&self, _ids: &[&str]) -> impl Future<Output = Result<bool>> + Send {
        std::future::ready(Ok(false))
    }

    /// Sets the attempts of a row to the maximum of the column. Returns whether there is such a column.
    fn count_to_the_end(&self, id: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Makes the lease expire.
    fn expire_lease(&self) -> impl Future<Output = Result<()>> + Send;

    /// Makes every row two days older in all its times.
    fn age(&self) -> impl Future<Output = Result<()>> + Send;
}

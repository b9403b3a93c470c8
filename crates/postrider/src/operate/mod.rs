//! What operators do with events that were not delivered: list, count, retry, discard, skip, give up; and the audit trail.
//!
//! The command line uses this module, and other tools can: the filters, the bounded counts, the rules about which state
//! allows which change, and the audit rows are the same for all of them. [`Operator`] works on a
//! [`Store`](crate::store::Store) of any
//! database and layout. A running relay applies a change within a third of its lease, without losing it: nothing is
//! delivered twice because of it (adr/0075-operations.md).

mod audit;
mod change;
mod cleanup;
pub mod explain;
mod filter;
mod handlers;
mod inbox;
mod operator;
mod replay;
mod subscriptions;

pub use audit::{AuditEntry, AuditQuery, AuditRecord, AuditSearch};
#[cfg(feature = "_store")]
pub(crate) use change::targets;
pub use change::{BATCH_ROWS_MAX, ParkedAction, ParkedChange, ParkedChanged};
pub use cleanup::{Cleanup, CleanupBatch, CleanupPlan};
pub use explain::{EventSelector, Explained, Explanation};
pub use filter::{ParkedCount, ParkedFilter, ParkedItem, ParkedQuery};
pub use handlers::HandlerEntry;
pub use inbox::{InboxCursor, InboxItem, InboxKind, InboxPage, InboxQuery, InboxRead, InboxRows};
pub use operator::{ChangeOptions, OnProgress, Operator};
pub use replay::{
    ReplayBatch, ReplayCandidate, ReplayFilter, ReplayOptions, ReplayPlan, ReplayProgress, ReplaySelection,
    Replayed, ReplayedBatch,
};
pub use subscriptions::{SubscriptionAction, SubscriptionChange, SubscriptionPlan};

//! How a transaction takes the lease of a subscription: the part that every layout has in common.

use super::subscription::unknown;
use super::{Acquired, Epoch, LeaseRequest};
use crate::Result;

/// A transaction that can take a lease.
pub(crate) trait LeaseTx: Send {
    /// The state of a subscription.
    type Row: Send;

    /// Why the lease cannot be taken now: the subscription is halted, or another relay holds it. `None` if it can.
    fn refusal(&mut self, lease: &LeaseRequest) -> impl Future<Output = Result<Option<Acquired>>> + Send;

    /// The state of the subscription, locked until the end of the transaction: a settle in progress is waited for, and
    /// none begins before the transaction is over.
    fn lock(&mut self, name: &str) -> impl Future<Output = Result<Option<Self::Row>>> + Send;

    /// Records the lease and raises the epoch of the subscription, which fences the previous owner.
    fn take(&mut self, lease: &LeaseRequest, epoch: Epoch) -> impl Future<Output = Result<()>> + Send;
}

/// The result of [`lock_if_free`].
pub(crate) enum Locked<R> {
    /// The lease can be taken in this transaction.
    Free(R),
    /// It cannot, for this reason.
    Refused(Acquired),
}

/// Locks a subscription whose lease can be taken. Relays on standby call this often and must not lock the row that the
/// owner settles on, so the check runs before the lock. The answer may change while the lock is waited for, so it runs
/// again after it.
///
/// # Errors
/// [`Code::SubscriptionUnknown`](crate::Code::SubscriptionUnknown) if there is no such subscription.
pub(crate) async fn lock_if_free<T: LeaseTx>(tx: &mut T, lease: &LeaseRequest) -> Result<Locked<T::Row>> {
    if let Some(refused) = tx.refusal(lease).await? {
        return Ok(Locked::Refused(refused));
    }
    let row = tx.lock(&lease.subscription).await?.ok_or_else(|| unknown(&lease.subscription))?;
    if let Some(refused) = tx.refusal(lease).await? {
        return Ok(Locked::Refused(refused));
    }
    Ok(Locked::Free(row))
}

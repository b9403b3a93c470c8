//! Changes of parked rows by operators, for the default layout: the part that is the same on every database.
//!
//! The transaction first locks the row of the subscription, as a settle and a takeover do. So it never waits for a lock
//! that a settle holds while the settle waits for it, and what it reads stays true until it commits.

use super::audit_tx::{AuditTx, NewAudit};
use super::subscription::unknown;
use crate::operate::{ParkedAction, ParkedChange, ParkedChanged, targets};
use crate::store::ParkedState;
use crate::{Position, Result};

/// How far to look for later events of a key, in positions. Beyond that, the key counts as one that has moved on.
pub(super) const LOOK_AHEAD_POSITIONS: i64 = 10_000;

/// A parked row that may be changed.
#[derive(Debug)]
pub(super) struct LockedRow {
    pub(super) position: Position,
    pub(super) state: ParkedState,
    /// Its event is ordered with others.
    pub(super) has_key: bool,
}

/// The statements of a transaction that changes parked rows.
pub(super) trait ParkedTx: AuditTx {
    /// Locks the row of a subscription. Returns whether it exists.
    fn lock_subscription(&mut self, name: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Locks parked rows, of those that exist.
    fn lock_rows(
        &mut self,
        name: &str,
        positions: &[Position],
    ) -> impl Future<Output = Result<Vec<LockedRow>>> + Send;

    /// Which of these parked events have a later event of their key that the subscription has read and that is not
    /// parked, or may have one.
    fn moved_on(
        &mut self,
        name: &str,
        positions: &[Position],
    ) -> impl Future<Output = Result<Vec<Position>>> + Send;

    /// Applies an action to rows that are locked.
    fn apply(
        &mut self,
        name: &str,
        action: ParkedAction,
        positions: &[Position],
    ) -> impl Future<Output = Result<()>> + Send;
}

/// See [`Store::change_parked`](crate::store::Store::change_parked).
pub(super) async fn change(tx: &mut impl ParkedTx, change: &ParkedChange) -> Result<ParkedChanged> {
    let ParkedChange { subscription, action, rows, out_of_order, audit, .. } = change;
    if !tx.lock_subscription(subscription).await? {
        return Err(unknown(subscription));
    }
    let positions: Vec<Position> =
        rows.iter().filter_map(|row| row.parse().ok().map(Position::new)).collect();
    let mut wanted = tx.lock_rows(subscription, &positions).await?;
    wanted.retain(|row| action.applies_to(row.state));
    let not_applicable = rows.len().saturating_sub(wanted.len()) as u64;
    let mut moved_on = Vec::new();
    if *action == ParkedAction::Retry && !out_of_order {
        let dead = wanted.iter().filter(|row| row.has_key && row.state == ParkedState::Dead);
        let dead: Vec<Position> = dead.map(|row| row.position).collect();
        if !dead.is_empty() {
            moved_on = tx.moved_on(subscription, &dead).await?;
        }
        wanted.retain(|row| !moved_on.contains(&row.position));
    }
    let wanted: Vec<Position> = wanted.into_iter().map(|row| row.position).collect();
    if !wanted.is_empty() {
        tx.apply(subscription, *action, &wanted).await?;
        let numbers = wanted.iter().map(|position| position.get()).collect();
        let (events, targets) = (wanted.len() as u64, targets(numbers));
        let new = NewAudit { events, ..NewAudit::of(subscription, audit).targets(&targets) };
        tx.insert_audit(new).await?;
    }
    Ok(ParkedChanged::new(wanted.len() as u64, moved_on.len() as u64, not_applicable))
}

//! Taking a lease on a server: what is checked before a relay becomes the owner.
//!
//! A server may be replaced by an older copy of itself, or by another server, and neither reports that. Before a
//! relay gets a new epoch, the progress is therefore compared with what this process knew, with the server it was
//! recorded on, and with the events themselves. If they do not match, the subscription halts until an operator
//! decides. Checks and lease are one transaction: if the process dies before its commit, nothing has changed.

use super::connection::Reached;
use super::history::{Seen, floor_offer};
use super::lease_tx::{LeaseTx, Locked, lock_if_free};
use super::log_tx::LogTx;
use super::subscription::SubscriptionRow;
use super::{Acquired, AfterFailover, Epoch, LeaseRequest, Origin};
use crate::Result;
use crate::ledger::{KnownRows, Progress};

/// The result of an attempt to take a lease, to be [remembered](crate::store::connection::Guard::remember) once it is
/// committed.
pub(super) struct Takeover {
    pub(super) acquired: Acquired,
    /// How far the owner of the lease is.
    pub(super) reached: Option<Reached>,
    /// The parked rows, as the new owner knows them.
    pub(super) known: KnownRows,
}

impl Takeover {
    fn refused(acquired: Acquired, reached: Option<Reached>) -> Self {
        Self { acquired, reached, known: KnownRows::default() }
    }
}

/// The queries that taking a lease needs. A database only answers them; [`acquire`] decides what the answers mean.
pub(super) trait TakeoverTx: LogTx + LeaseTx<Row = SubscriptionRow> {
    /// What a `history` identifies, in words for operators.
    const HISTORY: &'static str;

    /// Which server this is.
    fn origin(&self) -> Origin;

    /// Whether the server may be a successor of the one that the progress belongs to, as far as their names show.
    fn may_succeed(known: &str, now: &str, progress: &Progress) -> bool;

    /// How far the owner of a subscription is, for a relay on standby: if the database is restored to an older state,
    /// a relay that has seen the newer one notices.
    fn owner_reached(&mut self, _name: &str) -> impl Future<Output = Result<Option<Reached>>> + Send {
        std::future::ready(Ok(None))
    }

    /// Refuses an outbox whose table was altered, and waits until no rewrite of the table can hide events.
    fn check_events(&mut self) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// The reason to believe that positions were assigned a second time, if there is one.
    fn positions_reused(
        &mut self,
        _row: &SubscriptionRow,
    ) -> impl Future<Output = Result<Option<String>>> + Send {
        std::future::ready(Ok(None))
    }

    /// Records that the progress now belongs to this server.
    fn set_history(&mut self, name: &str, history: &str) -> impl Future<Output = Result<()>> + Send;

    /// Halts the subscription, whose row is locked.
    fn set_halted(&mut self, name: &str, reason: &str) -> impl Future<Output = Result<()>> + Send;
}

/// See [`Store::acquire`](crate::store::Store::acquire). `reached` is how far the subscription was when this process
/// last saw it.
pub(super) async fn acquire<T: TakeoverTx>(
    tx: &mut T,
    lease: &LeaseRequest,
    after_failover: AfterFailover,
    reached: Option<Reached>,
) -> Result<Takeover> {
    let name = &lease.subscription;
    let row = match lock_if_free(tx, lease).await? {
        Locked::Free(row) => row,
        Locked::Refused(refused) => return stand_by(tx, name, refused).await,
    };
    tx.check_events().await?;
    if let Some(reason) = history_change(tx, name, &row, after_failover, reached).await? {
        tx.set_halted(name, &reason).await?;
        return Ok(Takeover::refused(Acquired::Halted(reason), None));
    }
    let epoch = Epoch(row.epoch.0 + 1);
    let previous = tx.lease(name).await?;
    tx.take(lease, epoch).await?;
    let (mut loaded, known) = row.into_loaded(epoch, tx.parked(name).await?, Some(tx.origin()));
    loaded.previous = previous;
    let reached = Some(Reached { epoch, floor: loaded.progress.done.floor() });
    Ok(Takeover { acquired: Acquired::Granted(Box::new(loaded)), reached, known })
}

async fn stand_by<T: TakeoverTx>(tx: &mut T, name: &str, refused: Acquired) -> Result<Takeover> {
    let reached = match refused {
        Acquired::Held { .. } => tx.owner_reached(name).await?,
        Acquired::Granted(_) | Acquired::Halted(_) => None,
    };
    Ok(Takeover::refused(refused, reached))
}

/// Why the subscription must halt: the database is not the one that its progress, or this process, knew. `None` if it
/// is.
async fn history_change<T: TakeoverTx>(
    tx: &mut T,
    name: &str,
    row: &SubscriptionRow,
    after_failover: AfterFailover,
    reached: Option<Reached>,
) -> Result<Option<String>> {
    let back = match is_older_copy(row, reached) {
        Some(reason) => Some(reason),
        None => tx.positions_reused(row).await?,
    };
    let moved = failed_over(tx, name, row, after_failover, back.as_deref()).await?;
    Ok(moved.or(back))
}

/// Whether the progress is older than this process has seen it. Then the whole database was restored to an older
/// state, which is consistent in itself. Other owners only raise epoch and floor, and an operator who moves the
/// progress back raises the epoch.
fn is_older_copy(row: &SubscriptionRow, reached: Option<Reached>) -> Option<String> {
    let Reached { epoch, floor } = reached?;
    let found = row.progress.done.floor();
    (Reached { epoch: row.epoch, floor: found } < Reached { epoch, floor }).then(|| {
        format!(
            "all events up to position {floor} were settled with epoch {}, but the database has {found} with \
             epoch {}: it is an older copy, and may lack events that were already published. {}",
            epoch.0,
            row.epoch.0,
            floor_offer(found)
        )
    })
}

/// Why the subscription must halt, if the progress belongs to another history than the server's and must not continue
/// with it. If it may continue, the new history is recorded. `back` is another reason to halt, found before.
async fn failed_over<T: TakeoverTx>(
    tx: &mut T,
    name: &str,
    row: &SubscriptionRow,
    after_failover: AfterFailover,
    back: Option<&str>,
) -> Result<Option<String>> {
    let now = tx.origin().history;
    let Some(known) = row.history.as_deref().filter(|known| *known != now) else { return Ok(None) };
    let moved = format!(
        "the progress belongs to {} {known}, but this server is at {now}: it was failed over or restored, \
         and may have lost events that were already published",
        T::HISTORY
    );
    if let Some(back) = back {
        return Ok(Some(format!("{moved}; {back}")));
    }
    if after_failover == AfterFailover::Halt || !T::may_succeed(known, &now, &row.progress) {
        return Ok(Some(format!("{moved}. {}", floor_offer(row.progress.done.floor()))));
    }
    if let Some(change) = event_change(tx, &row.progress).await? {
        return Ok(Some(format!("{moved}; {change}")));
    }
    tx.set_history(name, &now).await?;
    tracing::warn!(
        subscription = name,
        before = known,
        now,
        "the database was failed over and the last event seen still exists: continuing. Events that were \
         published and then lost by the failover would not be noticed"
    );
    Ok(None)
}

/// How the events contradict the progress, if they do.
async fn event_change<T: TakeoverTx>(tx: &mut T, progress: &Progress) -> Result<Option<String>> {
    let found = match progress.highest {
        Some(mark) => tx.last_at_or_below(mark.position).await?.filter(|at| at.position == mark.position),
        None => None,
    };
    Ok(Seen::by(progress).change(tx.last_position().await?, found.map(|mark| mark.id)))
}

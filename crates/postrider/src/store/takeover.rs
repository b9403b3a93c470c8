//! Taking a lease on a server: what is checked before a subscription changes hands.
//!
//! A server may be replaced by an older copy of itself, or by another one, and neither says so. Before an epoch is given
//! out, the progress is therefore compared with what this process knew, with the server it was recorded on, and with the
//! events themselves. If they do not fit, the subscription halts until an operator decides.

use super::connection::Reached;
use super::log_tx::LogTx;
use super::subscription::{SubscriptionRow, unknown};
use super::{Acquired, AfterFailover, Epoch, LeaseRequest, Origin, history};
use crate::Result;
use crate::ledger::{KnownRows, Progress};

/// What an attempt to take a lease brought, to be [remembered](crate::store::connection::Guard::remember) once it is
/// committed.
pub(super) struct Takeover {
    pub(super) acquired: Acquired,
    /// How far the owner of the lease has come.
    pub(super) reached: Option<Reached>,
    /// What the new owner knows of the parked rows.
    pub(super) known: KnownRows,
}

impl Takeover {
    fn refused(acquired: Acquired, reached: Option<Reached>) -> Self {
        Self { acquired, reached, known: KnownRows::default() }
    }
}

/// What taking a lease asks of a transaction. Each is one question to the database; what the answers mean is decided by
/// [`acquire`].
pub(super) trait TakeoverTx: LogTx {
    /// What a `history` names, as operators know it.
    const HISTORY: &'static str;

    /// Which server this is.
    fn origin(&self) -> Origin;

    /// Whether the server may be a successor of the one the progress is about, as far as their names tell.
    fn may_succeed(known: &str, now: &str, progress: &Progress) -> bool;

    /// Why the lease cannot be had now, if so: the subscription is halted, or another relay has it.
    fn refusal(&mut self, lease: &LeaseRequest) -> impl Future<Output = Result<Option<Acquired>>> + Send;

    /// How far the owner of a subscription has come, for a relay that stands by: should everything be put back to an
    /// older state, a relay that knew the newer one notices.
    fn owner_reached(&mut self, _name: &str) -> impl Future<Output = Result<Option<Reached>>> + Send {
        std::future::ready(Ok(None))
    }

    /// The state of the subscription, locked until the end of the transaction: a settle in progress is waited for, and
    /// none begins before the transaction is over.
    fn lock(&mut self, name: &str) -> impl Future<Output = Result<Option<SubscriptionRow>>> + Send;

    /// Refuses an outbox that was altered, and waits until its events can be trusted to be all there.
    fn check_events(&mut self) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// Why positions must have been given a second time, if they were.
    fn given_again(&mut self, _row: &SubscriptionRow) -> impl Future<Output = Result<Option<String>>> + Send {
        std::future::ready(Ok(None))
    }

    /// From now on the progress is about this server.
    fn set_history(&mut self, name: &str, history: &str) -> impl Future<Output = Result<()>> + Send;

    /// Halts the subscription, whose row is locked.
    fn set_halted(&mut self, name: &str, reason: &str) -> impl Future<Output = Result<()>> + Send;

    /// Writes the lease down and raises the epoch of the subscription, which fences the owner before.
    fn take(&mut self, lease: &LeaseRequest, epoch: Epoch) -> impl Future<Output = Result<()>> + Send;
}

/// See [`Store::acquire`](crate::store::Store::acquire). `reached` is how far this process knew the subscription to be.
pub(super) async fn acquire<T: TakeoverTx>(
    tx: &mut T,
    lease: &LeaseRequest,
    after_failover: AfterFailover,
    reached: Option<Reached>,
) -> Result<Takeover> {
    let name = &lease.subscription;
    // Relays that stand by ask often; they must not lock the row that the owner settles on.
    if let Some(refused) = tx.refusal(lease).await? {
        return stand_by(tx, name, refused).await;
    }
    let row = tx.lock(name).await?.ok_or_else(|| unknown(name))?;
    if let Some(refused) = tx.refusal(lease).await? {
        return stand_by(tx, name, refused).await;
    }
    tx.check_events().await?;
    if let Some(reason) = history_change(tx, name, &row, after_failover, reached).await? {
        tx.set_halted(name, &reason).await?;
        return Ok(Takeover::refused(Acquired::Halted(reason), None));
    }
    let epoch = Epoch(row.epoch.0 + 1);
    tx.take(lease, epoch).await?;
    let (loaded, known) = row.into_loaded(epoch, tx.parked(name).await?, Some(tx.origin()));
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

/// Why the subscription must halt: the database is not the one that its progress, or this process, knew.
async fn history_change<T: TakeoverTx>(
    tx: &mut T,
    name: &str,
    row: &SubscriptionRow,
    after_failover: AfterFailover,
    reached: Option<Reached>,
) -> Result<Option<String>> {
    let back = match went_back(row, reached) {
        Some(reason) => Some(reason),
        None => tx.given_again(row).await?,
    };
    let moved = failed_over(tx, name, row, after_failover, back.as_deref()).await?;
    Ok(moved.or(back))
}

/// How the progress went back since this process knew of it, if it did: then everything was put back to an older
/// state, and agrees with itself. Another owner only ever raises both, and an operator who sets the progress
/// back raises the epoch.
fn went_back(row: &SubscriptionRow, reached: Option<Reached>) -> Option<String> {
    let Reached { epoch, floor } = reached?;
    let found = row.progress.done.floor();
    (Reached { epoch: row.epoch, floor: found } < Reached { epoch, floor }).then(|| {
        format!(
            "all events up to position {floor} were settled with epoch {}, but the database has {found} with \
             epoch {}: it is an older copy, and may lack events that were already published. {}",
            epoch.0,
            row.epoch.0,
            history::floor_offer(found)
        )
    })
}

/// Why the subscription must halt, if the progress is about another history than the server's and may not go on with
/// it. If it may, the new history is written down. `back` is what else speaks against it.
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
        return Ok(Some(format!("{moved}. {}", history::floor_offer(row.progress.done.floor()))));
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

/// What the progress knows and the events do not bear out, if anything.
async fn event_change<T: TakeoverTx>(tx: &mut T, progress: &Progress) -> Result<Option<String>> {
    let (done, highest) = (&progress.done, progress.highest);
    let seen = highest.map_or(done.highest(), |mark| mark.position.max(done.highest()));
    let found = match highest {
        Some(mark) => tx.mark_at_or_below(mark.position).await?.filter(|at| at.position == mark.position),
        None => None,
    };
    Ok(history::change(tx.last_position().await?, seen, highest, found.map(|mark| mark.id)))
}

//! Moves rows to the layout `postrider` in the same database. With notifications, each handler is a source: what is open
//! for it moves, and the other handlers keep theirs.

use std::sync::Arc;
use std::time::Duration;

use super::dialect::{Role, RowConnection, RowCounts, RowDialect, RowTx, TxVerb};
use super::plan::SettlePlan;
use super::store::RowStateStore;
use crate::adopt::{AdoptSource, AdoptionBatch, Counts, Moved, rows_changed};
use crate::layout::{Ability, RegisteredHandler, RowTable};
use crate::store::{MissedSearch, Notifications, RefusedEvent, Skipped};
use crate::{BoxFuture, Code, Error, Result};

/// Wait while a relay fans out.
const BUSY_WAIT: Duration = Duration::from_millis(100);

/// Events in one transaction of the fan-out before an adoption.
const FAN_OUT_EVENTS_MAX: usize = 500;

impl<D: RowDialect> AdoptSource for RowStateStore<D> {
    fn table(&self) -> Option<RowTable> {
        Some(RowTable::clone(self.0.dialect.table()))
    }

    fn of_subscription(&self, subscription: &str) -> BoxFuture<'_, Result<Option<Arc<dyn AdoptSource>>>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            let table = self.0.dialect.table();
            if !table.layout().has(Ability::Notifications) {
                return Ok(None);
            }
            let verb = FindHandler { name };
            let handler = self.0.dialect.connection(Role::Reader).await?.read_snapshot(verb).await?;
            let dialect = self.0.dialect.with_table(table.for_handler(handler))?;
            Ok(Some(Arc::new(Self::of(dialect)) as Arc<dyn AdoptSource>))
        })
    }

    fn fan_out_waiting(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            match self.0.dialect.table().layout().has(Ability::Notifications) {
                true => fan_out_waiting(self).await,
                false => Ok(0),
            }
        })
    }

    fn counts(&self, subscription: &str) -> BoxFuture<'_, Result<Counts>> {
        let verb = CountRows { subscription: subscription.to_owned() };
        Box::pin(async move { self.0.dialect.connection(Role::Reader).await?.read_snapshot(verb).await })
    }

    fn move_batch(&self, batch: AdoptionBatch) -> BoxFuture<'_, Result<Moved>> {
        Box::pin(async move {
            let _handout = self.0.term.handout.lock().await;
            let mut connection = self.0.dialect.connection(Role::Settler).await?;
            connection.leases().check_lease(&batch.settlement.subscription)?;
            let Some(plan) = self.0.plan(&batch.settlement) else { return Ok(Moved::Fenced) };
            let plan = Arc::new(plan);
            let moved = connection.write(MoveBatch { plan: plan.clone(), batch }).await?;
            if moved == Moved::Done {
                self.0.term.with_rows(|known| Arc::unwrap_or_clone(plan).apply(known));
            }
            Ok(moved)
        })
    }
}

/// See [`AdoptSource::fan_out_waiting`]. Events that another program has fanned out without the handler count as well.
async fn fan_out_waiting(notifications: &dyn Notifications) -> Result<u64> {
    let mut added = 0;
    loop {
        let fanned_out = notifications.fan_out(FAN_OUT_EVENTS_MAX, &Skipped::default()).await?;
        added += fanned_out.notifications;
        refuse(&fanned_out.refused)?;
        match (fanned_out.busy, fanned_out.more) {
            (true, _) => tokio::time::sleep(BUSY_WAIT).await,
            (false, true) => {}
            (false, false) => break,
        }
    }
    let mut after = None;
    loop {
        let found = notifications.search_missed(Duration::ZERO, after.as_ref()).await?;
        let MissedSearch::Page(mut page) = found else { break };
        for missed in page.missed.chunks(FAN_OUT_EVENTS_MAX) {
            let inserted = notifications.insert_missed(missed).await?;
            added += inserted.notifications;
            refuse(&inserted.refused)?;
        }
        after = page.missed.pop().filter(|_| page.more);
        if after.is_none() {
            break;
        }
    }
    Ok(added)
}

/// The error if the table refuses notifications: their events would be left behind.
fn refuse(refused: &[RefusedEvent]) -> Result<()> {
    let Some(RefusedEvent { event, reason, .. }) = refused.first() else { return Ok(()) };
    let what = format!(
        "{} events cannot be fanned out, so they cannot be moved: the table refuses the notification of {event}: {reason}",
        refused.len()
    );
    Err(Error::new(Code::RowRefused, what)
        .with_effect("these events wait for the fan-out")
        .with_hint("change the CHECK or the trigger that refuses them, then run the command again"))
}

/// Reads a registered handler, with all its types.
struct FindHandler {
    name: String,
}

impl TxVerb for FindHandler {
    type Output = RegisteredHandler;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<RegisteredHandler> {
        let registered = tx.registered().await?;
        if registered.iter().any(|entry| entry.handler == self.name) {
            let mut handler = RegisteredHandler::new(self.name);
            handler.aliases = tx.aliases_of(&handler.name).await?;
            return Ok(handler);
        }
        let what = format!("no handler {:?} is registered", self.name);
        let unknown = Error::new(Code::SubscriptionUnknown, what);
        let mut names: Vec<String> = registered.into_iter().map(|entry| entry.handler).collect();
        names.dedup();
        Err(match tx.renamed_to(&self.name).await? {
            Some(handler) => unknown.with_hint(format!(
                "it was renamed: pass --subscription {handler}, which also moves what is open under the earlier name"
            )),
            None if names.is_empty() => unknown.with_hint("start a relay with the handler once: it registers it"),
            None => unknown.with_hint(format!("registered are: {}", names.join(", "))),
        })
    }
}

/// See [`AdoptSource::counts`].
struct CountRows {
    subscription: String,
}

impl TxVerb for CountRows {
    type Output = Counts;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Counts> {
        let RowCounts { by_state, undelivered: [oldest, newest] } = tx.counts(&self.subscription).await?;
        let [pending, in_flight, retrying, given_up, delivered, unrouted] = by_state;
        let given_up = given_up.saturating_sub(unrouted);
        Ok(Counts { pending, in_flight, retrying, unrouted, given_up, delivered, oldest, newest })
    }
}

/// See [`AdoptSource::move_batch`].
struct MoveBatch {
    plan: Arc<SettlePlan>,
    batch: AdoptionBatch,
}

impl TxVerb for MoveBatch {
    type Output = Moved;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Moved> {
        let Self { plan, batch } = self;
        let Some(changed) = tx.record(&batch.settlement, &plan).await? else {
            return Ok(Moved::Fenced);
        };
        if changed < plan.rows() {
            return Err(rows_changed(plan.rows() - changed));
        }
        tx.exclude_from_retention(&plan.done.ids).await?;
        tx.write(batch).await.map(|()| Moved::Done)
    }
}

//! Routes events for the brain: destinations and ordering keys.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::brain::{Acquisition, Disposition, IdHasher, KeyId, Routed, RoutedClaim};
use super::{OnDead, Order, Policy};
use crate::encode::Encoder;
use crate::ledger::{NO_RULE, ParkedRow};
use crate::route::{Route, Router};
use crate::store::{Acquired, Claimed, Loaded, Store};
use crate::{Event, Position, Result, StoredEvent};

/// Adds the ids of key and destination to events and parked rows.
#[derive(Default)]
pub(super) struct Routing {
    router: Router,
    ids: IdHasher,
    order: Order,
    skipped: AtomicU64,
    /// May lack something for an event.
    encoder: Option<Arc<dyn Encoder>>,
}

impl Routing {
    pub(super) fn new(router: Router, order: Order, encoder: Arc<dyn Encoder>) -> Self {
        Self { router, order, encoder: Some(encoder), ..Self::default() }
    }

    /// Number of events since the relay started that no rule matched and that were skipped. An event that is read again
    /// after a takeover counts again.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    pub(super) fn route(&self, stored: StoredEvent) -> Routed {
        let StoredEvent { position, event } = stored;
        let route = self.router.route(&event);
        let key = self.key(route.ordering_key(&event).as_deref(), position);
        let missing = || self.encoder.as_ref()?.missing_for(&event);
        let disposition = match route {
            Route::To { name, delivery } => match missing() {
                Some(reason) => Disposition::Unrouted(reason.into()),
                None => Disposition::Deliver { id: self.ids.destination(&name), name, delivery },
            },
            Route::Skipped => {
                self.skipped.fetch_add(1, Ordering::Relaxed);
                Disposition::Filtered
            }
            Route::Filtered => Disposition::Filtered,
            Route::Unrouted => Disposition::Unrouted(NO_RULE.into()),
        };
        Routed { position, key, disposition, attempts: 0, redelivery: None, event }
    }

    fn key(&self, key: Option<&str>, position: Position) -> KeyId {
        self.ids.key(key.filter(|_| self.order == Order::Key), position)
    }

    pub(super) fn claim(&self, claimed: Claimed) -> RoutedClaim {
        match claimed {
            Claimed::Page(page) => RoutedClaim::Page {
                damaged: page.damaged,
                events: page.events.into_iter().map(|event| self.route(event)).collect(),
                empty_positions: page.empty_positions,
                more_at_once: page.more_at_once,
                has_unread: page.has_unread,
            },
            Claimed::HistoryChanged(reason) => RoutedClaim::HistoryChanged(reason),
        }
    }

    pub(super) fn acquisition(&self, acquired: Acquired) -> Acquisition {
        Acquisition::from_store(acquired, |row| self.key(row.key.as_deref(), row.position))
    }

    /// Sets the keys of parked rows according to the current rules.
    ///
    /// The rules may have changed since a row was written. A parked event must be in the same queue as newer events of
    /// its key, otherwise they would overtake it. Reads the parked events once per takeover. Without rules the keys
    /// never change; then only rows without a key are read, and rows that an earlier version may have written with only
    /// the aggregate's id.
    pub(super) async fn rekey(&self, store: &dyn Store, loaded: &mut Loaded, policy: &Policy) -> Result<()> {
        if self.order == Order::None {
            return Ok(());
        }
        let may_change = |row: &ParkedRow| self.router.has_rules() || may_lack_its_key(row);
        let dead = match policy.on_dead {
            OnDead::Block => &mut loaded.dead[..],
            OnDead::Proceed => &mut [],
        };
        let rows = loaded.parked.iter_mut().chain(dead).filter(|row| may_change(row));
        let mut rows: BTreeMap<Position, &mut ParkedRow> = rows.map(|row| (row.position, row)).collect();
        while !rows.is_empty() {
            let wanted = rows.keys().copied().take(policy.claim_events_max).collect();
            let fetched = store.peek(wanted, policy.read_ahead_bytes_max).await?;
            // An empty answer violates the store's contract; the remaining rows keep their keys.
            if fetched.events.is_empty() && fetched.gone.is_empty() && fetched.taken.is_empty() {
                break;
            }
            for StoredEvent { position, event } in fetched.events {
                if let Some(row) = rows.remove(&position) {
                    row.key = self.current_key(row.key.take(), &event);
                }
            }
            fetched.gone.iter().chain(&fetched.taken).for_each(|position| _ = rows.remove(position));
        }
        Ok(())
    }

    /// The key of a parked row, given its event. Without rules the row keeps its key, so that a row of another event is
    /// detected later. A damaged row, or one that an operator created, may have no key; an earlier version wrote the
    /// aggregate's id without its type.
    fn current_key(&self, known: Option<String>, event: &Event) -> Option<String> {
        let today = || self.router.route(event).ordering_key(event).map(Cow::into_owned);
        let is_without_type = || event.key.is_none() && known.as_deref() == event.message_key();
        match self.router.has_rules() || known.is_none() || is_without_type() {
            true => today(),
            false => known,
        }
    }
}

/// Whether a row may lack the key of its event, or contain only the aggregate's id without its type.
fn may_lack_its_key(row: &ParkedRow) -> bool {
    row.key.as_ref().is_none_or(|key| !key.contains('/'))
}

//! The database of the simulation: read-committed transactions over its [tables](super::tables).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use super::Bug;
use super::tables::{Database, HANDLE_WITHIN, Rows, record_search, rename};
use crate::store::row_state::handler_types::handler_types;
use crate::store::row_state::notifications::*;
use crate::store::{MissedNotification, Skipped};
use crate::{Code, Error, Result, Timestamp};

/// A transaction: it sees what is committed at each step. Its own changes become visible with its commit.
pub(super) struct ModelTx {
    database: Arc<Mutex<Database>>,
    holds_lock: bool,
    fanned_out: Vec<u64>,
    notifications: Vec<(u64, String)>,
    /// Found by a search: in no order.
    missed: Vec<(u64, String)>,
    registered: Vec<RegisteredType>,
    renamed: Vec<(String, String)>,
    subscriptions: Vec<String>,
    searched_at: Option<Timestamp>,
    /// The handlers that the process knew at its start, for the bug of that name.
    known: Vec<RegisteredType>,
    bug: Option<Bug>,
}

/// One step of a transaction takes a round trip: others run meanwhile.
pub(super) async fn round_trip() {
    let mut is_first = true;
    std::future::poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) })
        .await;
}

fn refused() -> Error {
    Error::new(Code::RowRefused, "a CHECK")
}

impl ModelTx {
    pub(super) fn new(database: &Arc<Mutex<Database>>, known: &[RegisteredType], bug: Option<Bug>) -> Self {
        Self {
            database: database.clone(),
            holds_lock: false,
            fanned_out: Vec::new(),
            notifications: Vec::new(),
            missed: Vec::new(),
            registered: Vec::new(),
            renamed: Vec::new(),
            subscriptions: Vec::new(),
            searched_at: None,
            known: known.to_vec(),
            bug,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Database> {
        self.database.lock().unwrap()
    }

    fn snapshot(&self) -> Rows {
        self.lock().committed.clone()
    }

    pub(super) fn commit(&mut self) {
        let database = self.database.clone();
        let mut database = database.lock().unwrap();
        let database = &mut *database;
        self.check_order(database);
        let now = database.clock;
        database.committed.fanned_out.extend(self.fanned_out.drain(..));
        for key in self.notifications.drain(..).chain(self.missed.drain(..)) {
            let date = database.committed.events[&key.0].date;
            let from = if self.bug == Some(Bug::ExpireFromTheDateOfTheEvent) { date } else { date.max(now) };
            if now - from > HANDLE_WITHIN {
                database.expired.insert(key.clone());
            }
            database.committed.notifications.entry(key).or_insert(now);
        }
        database.committed.subscriptions.extend(self.subscriptions.drain(..));
        for entry in self.registered.drain(..) {
            let rows = &mut database.committed;
            let (handler, pattern) = (entry.handler.clone(), entry.pattern.clone());
            if !rows.registered.iter().any(|of| of.handler == handler && of.pattern == pattern) {
                rows.registered.push(entry);
            }
            let waiting = rows.events.iter().filter(|(id, event)| {
                let kind = event.kind.as_deref();
                !rows.fanned_out.contains(id)
                    && kind.is_some_and(|kind| Database::takes(rows, &handler, kind))
            });
            database.owed.extend(waiting.map(|(id, _)| (*id, handler.clone())));
        }
        for (handler, alias) in self.renamed.drain(..) {
            rename(database, &handler, &alias, self.bug);
        }
        if let Some(begun) = self.searched_at.take() {
            record_search(database, begun);
        }
    }

    /// An event of a model must not be fanned out while an older one waits that goes to the same handler.
    fn check_order(&self, database: &mut Database) {
        let rows = &database.committed;
        for (id, handler) in &self.notifications {
            let model = rows.events[id].model;
            let earlier = rows.events.range(..id).find(|(earlier, event)| {
                let waits = !rows.fanned_out.contains(earlier) && !self.fanned_out.contains(earlier);
                let kind = event.kind.as_deref();
                let is_taken = kind.is_some_and(|kind| Database::takes(rows, handler, kind));
                event.model == model && waits && is_taken && !database.refused.contains(earlier)
            });
            database.overtaken.extend(earlier.map(|(earlier, _)| (*earlier, *id)));
        }
    }

    /// The oldest events that wait, with their handlers.
    fn pick(
        rows: &Rows,
        types: &[HandlerType],
        events_max: usize,
        excluded: &[String],
    ) -> Vec<(u64, Vec<String>)> {
        let mut by_type: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for entry in types {
            by_type.entry(&entry.event_type).or_default().push(entry.handler.clone());
        }
        let waiting = rows.events.iter().filter(|(id, _)| !rows.fanned_out.contains(id));
        let with_handlers = waiting.filter_map(|(id, event)| {
            let handlers = by_type.get(event.kind.as_deref()?)?.clone();
            (!excluded.contains(&id.to_string())).then_some((*id, handlers))
        });
        with_handlers.take(events_max).collect()
    }

    /// Inserts the notifications of these events and marks the events. All of it or nothing.
    async fn insert(&mut self, picked: Vec<(u64, Vec<String>)>) -> Result<(u64, u64)> {
        if self.bug == Some(Bug::SetDeliveredBeforeInsert) {
            self.lock().committed.fanned_out.extend(picked.iter().map(|(id, _)| *id));
            round_trip().await;
        }
        let is_refused = picked.iter().any(|(id, _)| self.lock().refused.contains(id));
        if is_refused && self.bug == Some(Bug::MarkRefused) && picked.len() == 1 {
            self.fanned_out.push(picked[0].0);
            return Ok((1, 0));
        }
        if is_refused {
            return Err(refused());
        }
        let mut inserted = 0;
        for (id, handlers) in &picked {
            self.fanned_out.push(*id);
            inserted += handlers.len() as u64;
            self.notifications.extend(handlers.iter().map(|handler| (*id, handler.clone())));
        }
        round_trip().await;
        Ok((picked.len() as u64, inserted))
    }
}

/// The end of a transaction, by commit or death, releases its lock.
impl Drop for ModelTx {
    fn drop(&mut self) {
        if self.holds_lock {
            self.lock().is_locked = false;
        }
    }
}

impl SubscriptionTx for ModelTx {
    async fn create_subscription(&mut self, name: &str) -> Result<bool> {
        round_trip().await;
        self.subscriptions.push(name.to_owned());
        Ok(!self.lock().committed.subscriptions.contains(name))
    }

    async fn now(&mut self) -> Result<Timestamp> {
        Ok(Timestamp::from_micros(self.lock().clock))
    }
}

impl NotificationTx for ModelTx {
    async fn lock_fan_out(&mut self, wait: bool) -> Result<bool> {
        if wait && self.bug == Some(Bug::RegisterWithoutLock) {
            return Ok(true);
        }
        loop {
            round_trip().await;
            let is_free = !std::mem::replace(&mut self.lock().is_locked, true);
            if is_free {
                self.holds_lock = true;
                return Ok(true);
            }
            if !wait {
                return Ok(false);
            }
        }
    }

    async fn registered(&mut self) -> Result<Vec<RegisteredType>> {
        round_trip().await;
        if self.bug == Some(Bug::HandlersOfTheProcess) {
            return Ok(self.known.clone());
        }
        Ok(self.lock().committed.registered.clone())
    }

    async fn register_type(&mut self, handler: &str, pattern: &str, since: Option<Timestamp>) -> Result<()> {
        round_trip().await;
        let registered_at = Timestamp::from_micros(self.lock().clock);
        let (handler, pattern) = (handler.to_owned(), pattern.to_owned());
        self.registered.push(RegisteredType { handler, pattern, since, registered_at, searched_at: None });
        Ok(())
    }

    async fn register_alias(&mut self, handler: &str, alias: &str) -> Result<()> {
        round_trip().await;
        self.renamed.push((handler.to_owned(), alias.to_owned()));
        Ok(())
    }

    async fn renamed_to(&mut self, name: &str) -> Result<Option<String>> {
        round_trip().await;
        Ok(self.lock().committed.aliases.get(name).cloned())
    }

    async fn waiting_types(&mut self) -> Result<Vec<String>> {
        round_trip().await;
        let rows = self.snapshot();
        let waiting = rows.events.iter().filter(|(id, _)| !rows.fanned_out.contains(id));
        let types: BTreeSet<String> = waiting.filter_map(|(_, event)| event.kind.clone()).collect();
        Ok(types.into_iter().collect())
    }

    async fn fanned_out_types(&mut self) -> Result<Vec<String>> {
        round_trip().await;
        let rows = self.snapshot();
        let types: BTreeSet<String> =
            rows.fanned_out.iter().filter_map(|id| rows.events[id].kind.clone()).collect();
        Ok(types.into_iter().collect())
    }

    async fn list_waiting(
        &mut self,
        types: &[HandlerType],
        events_max: usize,
        excluded: &[String],
    ) -> Result<Vec<WaitingEvent>> {
        round_trip().await;
        let rows = self.snapshot();
        let waiting = |(id, _): (u64, Vec<String>)| WaitingEvent {
            id: id.to_string(),
            event_type: rows.events[&id].kind.clone().unwrap_or_default(),
            date: Timestamp::from_micros(rows.events[&id].date),
        };
        Ok(Self::pick(&rows, types, events_max, excluded).into_iter().map(waiting).collect())
    }

    /// As the databases do it: the types and the events are of one snapshot.
    async fn fan_out_matching(
        &mut self,
        registered: &[RegisteredType],
        events_max: usize,
        skipped: &Skipped,
        _: Existing,
    ) -> Result<(u64, u64)> {
        let mut types = self.waiting_types().await?;
        if self.bug == Some(Bug::TypesBeforeEvents) {
            for _ in 0..5 {
                round_trip().await;
            }
        } else {
            types = self.waiting_types_now();
        }
        let types = handler_types(registered.to_vec(), &types);
        let picked = Self::pick(&self.snapshot(), &types, events_max, &skipped.ids);
        self.insert(picked).await
    }

    async fn fan_out(&mut self, types: &[HandlerType], scope: FanOutScope<'_>) -> Result<(u64, u64)> {
        round_trip().await;
        let rows = self.snapshot();
        let picked = match scope {
            FanOutScope::Oldest { events_max, excluded, .. } => {
                Self::pick(&rows, types, events_max, excluded)
            }
            FanOutScope::One(id) => {
                let mut all = Self::pick(&rows, types, usize::MAX, &[]);
                all.retain(|(of, _)| of.to_string() == id);
                all
            }
        };
        self.insert(picked).await
    }

    async fn find_missed(
        &mut self,
        types: &[HandlerType],
        after: Option<&MissedNotification>,
        rows_max: usize,
    ) -> Result<Vec<MissedNotification>> {
        round_trip().await;
        let rows = self.snapshot();
        let mut by_type: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for id in &rows.fanned_out {
            by_type.entry(rows.events[id].kind.as_deref().unwrap_or_default()).or_default().push(*id);
        }
        let mut missed = Vec::new();
        for (at, entry) in types.iter().enumerate() {
            let from = after.filter(|_| at == 0).map(|after| after.event.parse::<u64>().unwrap());
            let of_type = by_type.get(entry.event_type.as_str()).into_iter().flatten();
            for id in of_type.filter(|id| from.is_none_or(|from| **id > from)) {
                let event = &rows.events[id];
                let is_new = entry.since.is_none_or(|since| event.date >= since.as_micros());
                let names =
                    rows.aliases.iter().filter(|(_, of)| **of == entry.handler).map(|(alias, _)| alias);
                let mut names = names.chain([&entry.handler]);
                let is_known = names.any(|name| rows.notifications.contains_key(&(*id, name.clone())));
                if is_new && !is_known {
                    missed.push(MissedNotification {
                        event: id.to_string(),
                        event_type: entry.event_type.clone(),
                        event_date: Timestamp::from_micros(event.date),
                        handler: entry.handler.clone(),
                    });
                }
            }
        }
        missed.truncate(rows_max);
        Ok(missed)
    }

    async fn insert_missed(&mut self, missed: &[MissedNotification]) -> Result<u64> {
        round_trip().await;
        let new = missed.iter().map(|missed| (missed.event.parse().unwrap(), missed.handler.clone()));
        let new: Vec<(u64, String)> = new.collect();
        if new.iter().any(|(id, _)| self.lock().refused.contains(id)) {
            return Err(refused());
        }
        self.missed.extend(new);
        Ok(missed.len() as u64)
    }

    async fn record_search(&mut self, begun: Timestamp) -> Result<()> {
        round_trip().await;
        self.searched_at = Some(begun);
        Ok(())
    }
}

impl ModelTx {
    /// The types of the events that wait, without another round trip.
    fn waiting_types_now(&self) -> Vec<String> {
        let rows = self.snapshot();
        let waiting = rows.events.iter().filter(|(id, _)| !rows.fanned_out.contains(id));
        let types: BTreeSet<String> = waiting.filter_map(|(_, event)| event.kind.clone()).collect();
        types.into_iter().collect()
    }
}

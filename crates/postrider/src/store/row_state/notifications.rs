//! Layout `eventlog`: registers handlers and fans events out to them. See [`Notifications`].
//!
//! All relays and all registrations lock the same row. A registration waits for a fan-out in progress, so every event
//! that is marked after it has a notification for the new handler. Two relays never fan out at the same time; the second
//! one leaves the work to the first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::dialect::{Role, RowConnection, RowDialect, RowTx, TxVerb, no_notifications};
pub(crate) use super::handler_types::{HandlerType, RegisteredType};
use super::handler_types::{handler_types, needs_types, whole_types};
use super::store::RowStateStore;
use crate::layout::Handler;
use crate::store::{FannedOut, Notifications, Start, Store};
use crate::{BoxFuture, Code, Error, Result, Timestamp};

/// A search for missed events begins this long before the last one: a transaction of another program may mark an event
/// and commit after the search.
const SEARCH_OVERLAP: Duration = Duration::from_secs(24 * 60 * 60);

/// Types in one statement. With more, events are fanned out in groups of types, each in the order of its events.
const TYPES_MAX: usize = 500;

/// An event and a handler that it has no notification for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missed {
    pub(crate) event: String,
    pub(crate) handler: String,
}

/// Which events a statement fans out.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "_server"), allow(dead_code, reason = "SQLite does not have layout eventlog"))]
pub(crate) enum FanOutScope<'a> {
    /// The oldest ones that wait, except these ids.
    Oldest { events_max: usize, excluded: &'a [String], existing: Existing },
    /// The event with this id, if it waits.
    One(&'a str),
}

/// What a statement does about notifications that exist already. Only another program can have inserted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "_server"), allow(dead_code, reason = "SQLite does not have layout eventlog"))]
pub(crate) enum Existing {
    /// It may fail with an error about a row, and costs less.
    Fail,
    /// It leaves them as they are.
    Keep,
}

/// Steps of layout `eventlog` within a transaction. A database that does not have the layout keeps the defaults.
pub(crate) trait NotificationTx: Send {
    /// Creates the subscription if it does not exist; in a table with a state per row, if there is none at all. Returns
    /// whether it did.
    fn create_subscription(&mut self, name: &str) -> impl Future<Output = Result<bool>> + Send;

    /// The database's clock.
    fn now(&mut self) -> impl Future<Output = Result<Timestamp>> + Send;

    /// Locks the fan-out of the outbox until the end of the transaction. If another process holds the lock, waits for it
    /// or returns `false`.
    fn lock_fan_out(&mut self, _wait: bool) -> impl Future<Output = Result<bool>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// Every type of every registered handler.
    fn registered(&mut self) -> impl Future<Output = Result<Vec<RegisteredType>>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// Locks the fan-out and then reads the registry; `None` if another process holds the lock.
    fn try_lock_and_read(&mut self) -> impl Future<Output = Result<Option<Vec<RegisteredType>>>> + Send {
        async {
            match self.lock_fan_out(false).await? {
                true => self.registered().await.map(Some),
                false => Ok(None),
            }
        }
    }

    /// The handler that declares this name as an earlier one of its own, if there is one.
    fn renamed_to(&mut self, _name: &str) -> impl Future<Output = Result<Option<String>>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// Stores one type of a handler, if it is not stored yet.
    fn register_type(
        &mut self,
        _handler: &str,
        _pattern: &str,
        _since: Option<Timestamp>,
    ) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// Stores an earlier name of a handler, and deletes the types that are registered under that name.
    fn register_alias(&mut self, _handler: &str, _alias: &str) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// The types of events that wait for the fan-out.
    fn waiting_types(&mut self) -> impl Future<Output = Result<Vec<String>>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// The types of events that are fanned out.
    fn fanned_out_types(&mut self) -> impl Future<Output = Result<Vec<String>>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// Ids of the oldest events that wait.
    fn list_waiting(
        &mut self,
        _types: &[HandlerType],
        _events_max: usize,
        _excluded: &[String],
    ) -> impl Future<Output = Result<Vec<String>>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// Inserts the notifications of events, and sets `delivered`. Returns how many events, and how many notifications.
    fn fan_out(
        &mut self,
        _types: &[HandlerType],
        _scope: FanOutScope<'_>,
    ) -> impl Future<Output = Result<(u64, u64)>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// Events that are fanned out, but not to these handlers, except these ids.
    fn find_missed(
        &mut self,
        _types: &[HandlerType],
        _events_max: usize,
        _excluded: &[String],
    ) -> impl Future<Output = Result<Vec<Missed>>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// Inserts the notifications of these events and handlers. Returns how many.
    fn insert_missed(&mut self, _missed: &[Missed]) -> impl Future<Output = Result<u64>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// Records that a search for missed events, begun at this time, has found all.
    fn record_search(&mut self, _begun: Timestamp) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Err(no_notifications()))
    }
}

impl<D: RowDialect> Notifications for RowStateStore<D> {
    fn register(&self, handler: &Handler, start: Start) -> BoxFuture<'_, Result<bool>> {
        let verb = Register { handler: handler.clone(), start };
        Box::pin(async move { self.0.dialect.connection(Role::Settler).await?.write(verb).await })
    }

    fn store_of(&self, handler: Handler) -> Result<Arc<dyn Store>> {
        let table = self.0.dialect.table().for_handler(handler);
        Ok(Arc::new(Self::of(self.0.dialect.with_table(table)?)))
    }

    fn fan_out<'a>(&'a self, events_max: usize, excluded: &'a [String]) -> BoxFuture<'a, Result<FannedOut>> {
        Box::pin(async move {
            let mut connection = self.0.dialect.connection(Role::Claimer).await?;
            for existing in [Existing::Fail, Existing::Keep] {
                let batch = FanOutOldest { events_max, excluded: excluded.to_vec(), existing };
                match connection.write(batch).await {
                    Err(error) if concerns_row(error.code()) => {}
                    fanned_out => return fanned_out,
                }
            }
            fan_out_each(&mut connection, ListWaiting { events_max, excluded: excluded.to_vec() }).await
        })
    }

    fn fan_out_missed<'a>(
        &'a self,
        events_max: usize,
        excluded: &'a [String],
    ) -> BoxFuture<'a, Result<FannedOut>> {
        Box::pin(async move {
            let mut connection = self.0.dialect.connection(Role::Claimer).await?;
            let (begun, missed) =
                connection.write(FindMissed { events_max, excluded: excluded.to_vec() }).await?;
            let is_full = missed.len() >= events_max;
            let inserted = insert_missed(&mut connection, missed).await?;
            if inserted.busy {
                return Ok(inserted);
            }
            // If none of a full batch could be inserted, the next search would find the same.
            let more = is_full && inserted.notifications > 0;
            // While events are refused, the search must find them again.
            if !more && inserted.refused.is_empty() && excluded.is_empty() {
                connection.write(RecordSearch { begun }).await?;
            }
            Ok(FannedOut { more, ..inserted })
        })
    }
}

/// Whether an error is that of one row: the table refuses it, by a CHECK, a trigger or a limit.
fn concerns_row(code: Code) -> bool {
    matches!(code, Code::RowRefused | Code::RowDamaged)
}

/// Fans events out one by one, after a statement for all of them failed.
async fn fan_out_each(connection: &mut impl RowConnection, list: ListWaiting) -> Result<FannedOut> {
    let events_max = list.events_max;
    let ids = connection.write(list).await?;
    let is_full = ids.len() >= events_max;
    let mut all = FannedOut::default();
    for id in ids {
        match connection.write(FanOutOne { id: id.clone() }).await {
            Ok(one) if one.busy => return Ok(FannedOut { busy: true, ..all }),
            Ok(one) => {
                all.events += one.events;
                all.notifications += one.notifications;
            }
            Err(error) if concerns_row(error.code()) => all.refused.push((id, error.one_line())),
            Err(error) => return Err(error),
        }
    }
    all.more = is_full && all.events > 0;
    Ok(all)
}

/// Inserts missed notifications, one by one if the table refuses some of them.
async fn insert_missed(connection: &mut impl RowConnection, missed: Vec<Missed>) -> Result<FannedOut> {
    if missed.is_empty() {
        return Ok(FannedOut::default());
    }
    let events: BTreeSet<String> = missed.iter().map(|missed| missed.event.clone()).collect();
    let mut all = FannedOut { events: events.len() as u64, ..FannedOut::default() };
    match connection.write(InsertMissed { missed: missed.clone() }).await {
        Err(error) if concerns_row(error.code()) => {}
        Ok(None) => return Ok(busy()),
        Ok(Some(inserted)) => return Ok(FannedOut { notifications: inserted, ..all }),
        Err(error) => return Err(error),
    }
    for one in missed {
        let id = one.event.clone();
        match connection.write(InsertMissed { missed: vec![one] }).await {
            Ok(None) => return Ok(FannedOut { busy: true, ..all }),
            Ok(Some(inserted)) => all.notifications += inserted,
            Err(error) if concerns_row(error.code()) => all.refused.push((id, error.one_line())),
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Defines a verb whose steps are those of [`NotificationTx`].
macro_rules! verb {
    ($(#[$doc:meta])* $verb:ident { $($field:ident: $type:ty,)* } -> $output:ty) => {
        $(#[$doc])*
        struct $verb {
            $($field: $type,)*
        }

        impl TxVerb for $verb {
            type Output = $output;

            async fn run<T: RowTx>(self, tx: &mut T) -> Result<$output> {
                self.run_in(tx).await
            }
        }
    };
}

verb! {
    /// See [`Notifications::register`].
    Register { handler: Handler, start: Start, } -> bool
}

impl Register {
    async fn run_in<T: NotificationTx>(self, tx: &mut T) -> Result<bool> {
        let Self { handler, start } = self;
        if handler.aliases.contains(&handler.name) {
            let what = format!("handler {:?} has its own name as an alias", handler.name);
            return Err(Error::new(Code::HandlerInvalid, what).with_hint("an alias is an earlier name"));
        }
        if !tx.lock_fan_out(true).await? {
            return Err(Error::new(Code::SchemaAltered, "the table fan_out has no row")
                .with_hint("insert one row: it is the lock of the fan-out"));
        }
        let is_new = tx.create_subscription(&handler.name).await?;
        let since = match start {
            Start::Beginning => None,
            Start::Now => Some(tx.now().await?),
            Start::Time(time) => Some(time),
            Start::Position(_) => {
                let what = format!("handler {:?} cannot start at a position", handler.name);
                return Err(Error::new(Code::StartRefused, what).with_hint(
                    "events of layout eventlog have no position: start at \"beginning\", \"now\" or a time",
                ));
            }
        };
        let registered = tx.registered().await?;
        let twin = registered
            .iter()
            .map(|entry| &entry.handler)
            .find(|name| **name != handler.name && name.to_lowercase() == handler.name.to_lowercase());
        if let Some(twin) = twin {
            let what = format!("handler {:?} differs from {twin:?} only by case", handler.name);
            return Err(Error::new(Code::HandlerInvalid, what)
                .with_hint("the table of notifications may not distinguish the names: use another one"));
        }
        if let Some(handler_now) = tx.renamed_to(&handler.name).await? {
            tracing::warn!(
                handler = handler.name,
                renamed_to = handler_now,
                "the handler was renamed: no event is fanned out to its earlier name, only notifications that exist are \
                 handled; to use the name again, delete its row of handler_aliases"
            );
            return Ok(is_new);
        }
        for pattern in handler.patterns() {
            tx.register_type(&handler.name, &pattern, since).await?;
        }
        for alias in &handler.aliases {
            if let Some(other) = tx.renamed_to(alias).await?.filter(|other| *other != handler.name) {
                let what = format!(
                    "{alias:?} is an alias of handler {other:?} already, and cannot be one of {:?}",
                    handler.name
                );
                return Err(Error::new(Code::HandlerInvalid, what)
                    .with_hint("two handlers would handle the same notifications: remove one of the aliases, also from the table handler_aliases"));
            }
            if registered.iter().any(|entry| &entry.handler == alias) {
                tracing::info!(
                    handler = handler.name,
                    alias,
                    "events are no longer fanned out to the earlier name"
                );
            }
            tx.register_alias(&handler.name, alias).await?;
        }
        Ok(is_new)
    }
}

verb! {
    /// See [`Notifications::fan_out`].
    FanOutOldest { events_max: usize, excluded: Vec<String>, existing: Existing, } -> FannedOut
}

impl FanOutOldest {
    async fn run_in<T: NotificationTx>(self, tx: &mut T) -> Result<FannedOut> {
        let Some(types) = lock_types(tx).await? else { return Ok(busy()) };
        let mut all = FannedOut::default();
        for types in whole_types(&types, TYPES_MAX) {
            let Self { events_max, ref excluded, existing } = self;
            let scope = FanOutScope::Oldest { events_max, excluded, existing };
            let (events, notifications) = tx.fan_out(types, scope).await?;
            all.events += events;
            all.notifications += notifications;
            all.more |= events >= self.events_max as u64;
        }
        Ok(all)
    }
}

verb! {
    /// The ids of the events that [`FanOutOldest`] would fan out.
    ListWaiting { events_max: usize, excluded: Vec<String>, } -> Vec<String>
}

impl ListWaiting {
    async fn run_in<T: NotificationTx>(self, tx: &mut T) -> Result<Vec<String>> {
        let Some(types) = lock_types(tx).await? else { return Ok(Vec::new()) };
        let mut ids = Vec::new();
        for types in whole_types(&types, TYPES_MAX) {
            ids.extend(tx.list_waiting(types, self.events_max, &self.excluded).await?);
        }
        Ok(ids)
    }
}

verb! {
    /// Fans one event out.
    FanOutOne { id: String, } -> FannedOut
}

impl FanOutOne {
    async fn run_in<T: NotificationTx>(self, tx: &mut T) -> Result<FannedOut> {
        let Some(types) = lock_types(tx).await? else { return Ok(busy()) };
        if types.is_empty() {
            return Ok(FannedOut::default());
        }
        let (events, notifications) = tx.fan_out(&types, FanOutScope::One(&self.id)).await?;
        Ok(FannedOut { events, notifications, ..FannedOut::default() })
    }
}

verb! {
    /// Finds events that another program fanned out without a handler registered here, and when the search began. It
    /// may read the whole table, so it does not lock the fan-out.
    FindMissed { events_max: usize, excluded: Vec<String>, } -> (Timestamp, Vec<Missed>)
}

impl FindMissed {
    async fn run_in<T: NotificationTx>(self, tx: &mut T) -> Result<(Timestamp, Vec<Missed>)> {
        let begun = tx.now().await?;
        let registered = tx.registered().await?;
        let types = match needs_types(&registered) {
            true => tx.fanned_out_types().await?,
            false => Vec::new(),
        };
        let searched = registered.into_iter().map(|entry| {
            let after_last = entry.searched_at.map(|at| at.before(SEARCH_OVERLAP));
            let since = after_last.into_iter().chain(entry.since).fold(entry.registered_at, Timestamp::max);
            RegisteredType { since: Some(since), ..entry }
        });
        let mut missed = Vec::new();
        let searched = handler_types(searched, &types);
        for types in whole_types(&searched, TYPES_MAX) {
            let left = self.events_max - missed.len();
            if left > 0 {
                missed.extend(tx.find_missed(types, left, &self.excluded).await?);
            }
        }
        Ok((begun, missed))
    }
}

verb! {
    /// Inserts missed notifications. Returns how many; `None` if another relay is fanning out.
    InsertMissed { missed: Vec<Missed>, } -> Option<u64>
}

impl InsertMissed {
    async fn run_in<T: NotificationTx>(self, tx: &mut T) -> Result<Option<u64>> {
        match tx.lock_fan_out(false).await? {
            true => tx.insert_missed(&self.missed).await.map(Some),
            false => Ok(None),
        }
    }
}

verb! {
    /// Records that a search has found all.
    RecordSearch { begun: Timestamp, } -> ()
}

impl RecordSearch {
    async fn run_in<T: NotificationTx>(self, tx: &mut T) -> Result<()> {
        tx.record_search(self.begun).await
    }
}

/// Locks the fan-out and reads which events go to which handler. `None` if another relay is fanning out.
async fn lock_types<T: NotificationTx>(tx: &mut T) -> Result<Option<Vec<HandlerType>>> {
    let Some(registered) = tx.try_lock_and_read().await? else { return Ok(None) };
    let types = match needs_types(&registered) {
        true => tx.waiting_types().await?,
        false => Vec::new(),
    };
    Ok(Some(handler_types(registered, &types)))
}

fn busy() -> FannedOut {
    FannedOut { busy: true, ..FannedOut::default() }
}

#[cfg(test)]
#[path = "notifications_sim.rs"]
mod sim;

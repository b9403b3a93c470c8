//! Layout `eventlog`: registers handlers and fans events out to them. See [`Notifications`].
//!
//! All relays and all registrations lock the same row. A registration waits for a fan-out in progress, so every event
//! that is marked after it has a notification for the new handler. Two relays never fan out at the same time; the second
//! one leaves the work to the first.

use std::sync::Arc;
use std::time::Duration;

use super::dialect::{Role, RowConnection, RowDialect, RowTx, TxVerb, no_notifications};
use super::event_facts::LoggedEvent;
use super::fan_out_batch::fan_out_batch;
pub(crate) use super::handler_types::{HandlerType, RegisteredType};
use super::handler_types::{handler_types, leave_out, needs_types, whole_types};
use super::missed::{self, FindMissed, MISSED_PAGE_MAX, RecordSearch};
use super::store::RowStateStore;
use crate::layout::RegisteredHandler;
use crate::store::{FannedOut, MissedNotification, MissedSearch, Notifications, Skipped, Start, Store};
use crate::{BoxFuture, Code, Error, Result, Timestamp};

/// Types in one statement. With more, events are fanned out in groups of types, each in the order of its events.
pub(super) const TYPES_MAX: usize = 500;

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

/// An event that is not fanned out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingEvent {
    pub(crate) id: String,
    pub(crate) event_type: String,
    pub(crate) date: Timestamp,
}

/// Creating a subscription within a transaction.
pub(crate) trait SubscriptionTx: Send {
    /// Creates the subscription if it does not exist; in a table with a state per row, if there is none at all. Returns
    /// whether it did.
    fn create_subscription(&mut self, name: &str) -> impl Future<Output = Result<bool>> + Send;

    /// The database's clock.
    fn now(&mut self) -> impl Future<Output = Result<Timestamp>> + Send;
}

/// Steps of layout `eventlog` within a transaction. A database that does not have the layout keeps the defaults.
pub(crate) trait NotificationTx: SubscriptionTx {
    /// Locks the fan-out of the outbox until the end of the transaction. If another process holds the lock, waits for it
    /// or returns `false`.
    fn lock_fan_out(&mut self, _wait: bool) -> impl Future<Output = Result<bool>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// An event and its notifications, by the id of the event.
    fn logged_event(&mut self, _id: &str) -> impl Future<Output = Result<Option<LoggedEvent>>> + Send {
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

    /// Stores an earlier name of a handler, and deletes the types that are registered under that name. The same types of
    /// the handler count as registered since then.
    fn register_alias(&mut self, _handler: &str, _alias: &str) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// The earlier names of a handler.
    fn aliases_of(&mut self, _handler: &str) -> impl Future<Output = Result<Vec<String>>> + Send {
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

    /// The oldest events that wait.
    fn list_waiting(
        &mut self,
        _types: &[HandlerType],
        _events_max: usize,
        _excluded: &[String],
    ) -> impl Future<Output = Result<Vec<WaitingEvent>>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// The oldest events that wait and match a registered pattern, of all types in one snapshot: an event that is written
    /// after another one of its model is never seen without it.
    fn list_matching(
        &mut self,
        registered: &[RegisteredType],
        events_max: usize,
        skipped: &Skipped,
    ) -> impl Future<Output = Result<Vec<WaitingEvent>>> + Send {
        async move {
            let types = handler_types(registered.to_vec(), &self.waiting_types().await?);
            list_by_type(self, types, events_max, skipped).await
        }
    }

    /// Inserts the notifications of the events of [`list_matching`](Self::list_matching), and sets `delivered`. Returns how
    /// many events, and how many notifications.
    fn fan_out_matching(
        &mut self,
        registered: &[RegisteredType],
        events_max: usize,
        skipped: &Skipped,
        existing: Existing,
    ) -> impl Future<Output = Result<(u64, u64)>> + Send {
        async move {
            let types = handler_types(registered.to_vec(), &self.waiting_types().await?);
            fan_out_by_type(self, types, events_max, skipped, existing).await
        }
    }

    /// Inserts the notifications of events, and sets `delivered`. Returns how many events, and how many notifications.
    fn fan_out(
        &mut self,
        _types: &[HandlerType],
        _scope: FanOutScope<'_>,
    ) -> impl Future<Output = Result<(u64, u64)>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// Events that are fanned out, but not to these handlers: in the order of the entries, then of dates and ids, each
    /// not before its `since`. With `after`, the first entry continues behind that event.
    fn find_missed(
        &mut self,
        _types: &[HandlerType],
        _after: Option<&MissedNotification>,
        _rows_max: usize,
    ) -> impl Future<Output = Result<Vec<MissedNotification>>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// Inserts the notifications of these events and handlers. Returns how many.
    fn insert_missed(&mut self, _missed: &[MissedNotification]) -> impl Future<Output = Result<u64>> + Send {
        std::future::ready(Err(no_notifications()))
    }

    /// Records that a search for missed events, begun at this time, has found all.
    fn record_search(&mut self, _begun: Timestamp) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Err(no_notifications()))
    }
}

impl<D: RowDialect> Notifications for RowStateStore<D> {
    fn register(&self, handler: &RegisteredHandler, start: Start) -> BoxFuture<'_, Result<bool>> {
        let verb = Register { handler: handler.clone(), start };
        Box::pin(async move { self.0.dialect.connection(Role::Settler).await?.write(verb).await })
    }

    fn store_of(&self, handler: RegisteredHandler) -> Result<Arc<dyn Store>> {
        let table = self.0.dialect.table().for_handler(handler);
        Ok(Arc::new(Self::of(self.0.dialect.with_table(table)?)))
    }

    fn fan_out<'a>(&'a self, events_max: usize, skipped: &'a Skipped) -> BoxFuture<'a, Result<FannedOut>> {
        Box::pin(async move {
            fan_out_batch(&mut self.0.dialect.connection(Role::Claimer).await?, events_max, skipped).await
        })
    }

    fn search_missed<'a>(
        &'a self,
        every: Duration,
        after: Option<&'a MissedNotification>,
    ) -> BoxFuture<'a, Result<MissedSearch>> {
        Box::pin(async move {
            let search = FindMissed { every, after: after.cloned(), rows_max: MISSED_PAGE_MAX };
            self.0.dialect.connection(Role::Searcher).await?.read_snapshot(search).await
        })
    }

    fn insert_missed<'a>(&'a self, missed: &'a [MissedNotification]) -> BoxFuture<'a, Result<FannedOut>> {
        Box::pin(async move {
            missed::insert(&mut self.0.dialect.connection(Role::Searcher).await?, missed).await
        })
    }

    fn record_search(&self, begun: Timestamp) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.0.dialect.connection(Role::Searcher).await?.write(RecordSearch { begun }).await
        })
    }
}

/// Whether an error is that of one row: the table refuses it, by a CHECK, a trigger or a limit.
pub(super) fn concerns_row(code: Code) -> bool {
    matches!(code, Code::RowRefused | Code::RowDamaged)
}

/// Defines a verb whose steps are those of [`NotificationTx`].
macro_rules! verb {
    ($(#[$doc:meta])* $verb:ident { $($field:ident: $type:ty,)* } -> $output:ty) => {
        $(#[$doc])*
        pub(super) struct $verb {
            $(pub(super) $field: $type,)*
        }

        impl TxVerb for $verb {
            type Output = $output;

            async fn run<T: RowTx>(self, tx: &mut T) -> Result<$output> {
                self.run_in(tx).await
            }
        }
    };
}
pub(super) use verb;

verb! {
    /// See [`Notifications::register`].
    Register { handler: RegisteredHandler, start: Start, } -> bool
}

impl Register {
    async fn run_in<T: NotificationTx>(self, tx: &mut T) -> Result<bool> {
        let Self { handler, start } = self;
        if handler.aliases.contains(&handler.name) {
            let what = format!("handler {:?} has its own name as an alias", handler.name);
            return Err(Error::new(Code::HandlerInvalid, what).with_hint("an alias is an earlier name"));
        }
        wait_for_lock(tx).await?;
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
    FanOutOldest { events_max: usize, skipped: Skipped, existing: Existing, } -> FannedOut
}

impl FanOutOldest {
    async fn run_in<T: NotificationTx>(self, tx: &mut T) -> Result<FannedOut> {
        let Self { events_max, skipped, existing } = self;
        let Some(registered) = tx.try_lock_and_read().await? else { return Ok(busy()) };
        let (events, notifications) = match needs_types(&registered) {
            true => tx.fan_out_matching(&registered, events_max, &skipped, existing).await?,
            false => {
                fan_out_by_type(tx, handler_types(registered, &[]), events_max, &skipped, existing).await?
            }
        };
        Ok(FannedOut { events, notifications, more: events >= events_max as u64, ..FannedOut::default() })
    }
}

async fn fan_out_by_type<T: NotificationTx + ?Sized>(
    tx: &mut T,
    mut types: Vec<HandlerType>,
    events_max: usize,
    skipped: &Skipped,
    existing: Existing,
) -> Result<(u64, u64)> {
    leave_out(&mut types, &skipped.older_than);
    let (mut events, mut notifications) = (0, 0);
    for types in whole_types(&types, TYPES_MAX) {
        let scope = FanOutScope::Oldest { events_max, excluded: &skipped.ids, existing };
        let fanned_out = tx.fan_out(types, scope).await?;
        events += fanned_out.0;
        notifications += fanned_out.1;
    }
    Ok((events, notifications))
}

async fn list_by_type<T: NotificationTx + ?Sized>(
    tx: &mut T,
    mut types: Vec<HandlerType>,
    events_max: usize,
    skipped: &Skipped,
) -> Result<Vec<WaitingEvent>> {
    leave_out(&mut types, &skipped.older_than);
    let mut waiting = Vec::new();
    for types in whole_types(&types, TYPES_MAX) {
        waiting.extend(tx.list_waiting(types, events_max, &skipped.ids).await?);
    }
    Ok(waiting)
}

verb! {
    /// The events that [`FanOutOldest`] would fan out; `None` if another process holds the lock.
    ListWaiting { events_max: usize, skipped: Skipped, } -> Option<Vec<WaitingEvent>>
}

impl ListWaiting {
    async fn run_in<T: NotificationTx>(self, tx: &mut T) -> Result<Option<Vec<WaitingEvent>>> {
        let Self { events_max, skipped } = self;
        let Some(registered) = tx.try_lock_and_read().await? else { return Ok(None) };
        let waiting = match needs_types(&registered) {
            true => tx.list_matching(&registered, events_max, &skipped).await?,
            false => list_by_type(tx, handler_types(registered, &[]), events_max, &skipped).await?,
        };
        Ok(Some(waiting))
    }
}

verb! {
    /// Fans one event of this type out.
    FanOutOne { id: String, event_type: String, } -> FannedOut
}

impl FanOutOne {
    async fn run_in<T: NotificationTx>(self, tx: &mut T) -> Result<FannedOut> {
        let Some(registered) = tx.try_lock_and_read().await? else { return Ok(busy()) };
        let mut types = handler_types(registered, std::slice::from_ref(&self.event_type));
        types.retain(|entry| entry.event_type == self.event_type);
        if types.is_empty() {
            return Ok(FannedOut::default());
        }
        let (events, notifications) = tx.fan_out(&types, FanOutScope::One(&self.id)).await?;
        Ok(FannedOut { events, notifications, ..FannedOut::default() })
    }
}

/// Locks the fan-out. Waits for one in progress.
pub(super) async fn wait_for_lock<T: NotificationTx>(tx: &mut T) -> Result<()> {
    if tx.lock_fan_out(true).await? {
        return Ok(());
    }
    Err(Error::new(Code::SchemaAltered, "the table fan_out has no row")
        .with_hint("insert one row: it is the lock of the fan-out"))
}

pub(super) fn busy() -> FannedOut {
    FannedOut { busy: true, ..FannedOut::default() }
}

#[cfg(test)]
#[path = "notifications_sim.rs"]
mod sim;

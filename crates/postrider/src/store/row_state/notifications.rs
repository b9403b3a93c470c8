//! Layout `eventlog`: registers handlers and fans events out to them. See [`Notifications`].
//!
//! All relays and all registrations lock the same row. A registration waits for a fan-out in progress, so every event
//! that is marked after it has a notification for the new handler. Two relays never fan out at the same time; the second
//! one leaves the work to the first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::dialect::{Role, RowConnection, RowDialect, RowTx, TxVerb};
use super::store::RowStateStore;
use crate::layout::Handler;
use crate::route::Globs;
use crate::store::{FannedOut, Notifications, Start, Store};
use crate::{BoxFuture, Code, Error, Result, Timestamp};

/// A search for missed events begins this long before the last one: a transaction of another program may mark an event
/// and commit after the search.
const SEARCH_OVERLAP: Duration = Duration::from_secs(24 * 60 * 60);

/// One type of a registered handler, as the database stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegisteredType {
    pub(crate) handler: String,
    /// `*` matches any text.
    pub(crate) pattern: String,
    /// Older events are not fanned out to it.
    pub(crate) since: Option<Timestamp>,
    pub(crate) registered_at: Timestamp,
    /// When the last search for missed events began.
    pub(crate) searched_at: Option<Timestamp>,
}

/// Events of one type that are fanned out to one handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) handler: String,
    pub(crate) event_type: String,
    /// Older events are not fanned out to it.
    pub(crate) since: Option<Timestamp>,
}

/// Which events a statement fans out.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only PostgreSQL has layout eventlog"))]
pub(crate) enum Which<'a> {
    /// The oldest ones that are not fanned out, except these ids.
    Oldest { events_max: usize, excluded: &'a [String] },
    /// The event with this id, if it is not fanned out.
    One(&'a str),
    /// Events that are marked but have no notification for the handler.
    Missed { events_max: usize },
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
            let batch = FanOutOldest { events_max, excluded: excluded.to_vec() };
            match connection.write(batch).await {
                Err(error) if concerns_row(error.code()) => {
                    let ids = ListOldest { events_max, excluded: excluded.to_vec() };
                    fan_out_each(&mut connection, ids, events_max).await
                }
                fanned_out => fanned_out,
            }
        })
    }

    fn fan_out_missed(&self, events_max: usize) -> BoxFuture<'_, Result<FannedOut>> {
        Box::pin(async move {
            self.0.dialect.connection(Role::Claimer).await?.write(FanOutMissed { events_max }).await
        })
    }
}

/// Whether an error is that of one row: the table refuses it, by a CHECK, a trigger or a limit.
fn concerns_row(code: Code) -> bool {
    matches!(code, Code::RowRefused | Code::RowDamaged)
}

/// Fans events out one by one, after a statement for all of them failed.
async fn fan_out_each(
    connection: &mut impl RowConnection,
    list: ListOldest,
    events_max: usize,
) -> Result<FannedOut> {
    let ids = connection.write(list).await?;
    let mut all = FannedOut { more: ids.len() >= events_max, ..FannedOut::default() };
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
    Ok(all)
}

/// See [`Notifications::register`].
struct Register {
    handler: Handler,
    start: Start,
}

impl TxVerb for Register {
    type Output = bool;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<bool> {
        let Self { handler, start } = self;
        tx.lock_fan_out(true).await?;
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
        for pattern in handler.patterns() {
            tx.register_type(&handler.name, &pattern, since).await?;
        }
        for alias in &handler.aliases {
            tx.register_alias(&handler.name, alias).await?;
        }
        Ok(is_new)
    }
}

/// See [`Notifications::fan_out`].
struct FanOutOldest {
    events_max: usize,
    excluded: Vec<String>,
}

impl TxVerb for FanOutOldest {
    type Output = FannedOut;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<FannedOut> {
        let Some(targets) = lock_targets(tx).await? else { return Ok(busy()) };
        let which = Which::Oldest { events_max: self.events_max, excluded: &self.excluded };
        let (events, notifications) = fan_out(tx, &targets, which).await?;
        let more = events >= self.events_max as u64;
        Ok(FannedOut { events, notifications, more, ..FannedOut::default() })
    }
}

/// The ids of the events that [`FanOutOldest`] would fan out.
struct ListOldest {
    events_max: usize,
    excluded: Vec<String>,
}

impl TxVerb for ListOldest {
    type Output = Vec<String>;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Vec<String>> {
        let Some(targets) = lock_targets(tx).await? else { return Ok(Vec::new()) };
        if targets.is_empty() {
            return Ok(Vec::new());
        }
        tx.list_undelivered(&targets, self.events_max, &self.excluded).await
    }
}

/// Fans one event out.
struct FanOutOne {
    id: String,
}

impl TxVerb for FanOutOne {
    type Output = FannedOut;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<FannedOut> {
        let Some(targets) = lock_targets(tx).await? else { return Ok(busy()) };
        let (events, notifications) = fan_out(tx, &targets, Which::One(&self.id)).await?;
        Ok(FannedOut { events, notifications, ..FannedOut::default() })
    }
}

/// See [`Notifications::fan_out_missed`].
struct FanOutMissed {
    events_max: usize,
}

impl TxVerb for FanOutMissed {
    type Output = FannedOut;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<FannedOut> {
        if !tx.lock_fan_out(false).await? {
            return Ok(busy());
        }
        let begun = tx.now().await?;
        let registered = tx.registered().await?;
        let types = match needs_types(&registered) {
            true => tx.delivered_types().await?,
            false => Vec::new(),
        };
        let searched = registered.into_iter().map(|entry| {
            let after_last = entry.searched_at.map(|at| at.before(SEARCH_OVERLAP));
            let since = after_last.into_iter().chain(entry.since).fold(entry.registered_at, Timestamp::max);
            RegisteredType { since: Some(since), ..entry }
        });
        let targets = targets(searched, &types);
        let (events, notifications) =
            fan_out(tx, &targets, Which::Missed { events_max: self.events_max }).await?;
        let more = notifications >= self.events_max as u64;
        if !more {
            tx.record_search(begun).await?;
        }
        Ok(FannedOut { events, notifications, more, ..FannedOut::default() })
    }
}

/// Locks the fan-out and reads what is fanned out to which handler. `None` if another relay is fanning out.
async fn lock_targets<T: RowTx>(tx: &mut T) -> Result<Option<Vec<Target>>> {
    if !tx.lock_fan_out(false).await? {
        return Ok(None);
    }
    let registered = tx.registered().await?;
    let types = match needs_types(&registered) {
        true => tx.undelivered_types().await?,
        false => Vec::new(),
    };
    Ok(Some(targets(registered, &types)))
}

async fn fan_out<T: RowTx>(tx: &mut T, targets: &[Target], which: Which<'_>) -> Result<(u64, u64)> {
    if targets.is_empty() { Ok((0, 0)) } else { tx.fan_out(targets, which).await }
}

fn busy() -> FannedOut {
    FannedOut { busy: true, ..FannedOut::default() }
}

/// Whether a pattern is registered, so that the types in the table must be read.
fn needs_types(registered: &[RegisteredType]) -> bool {
    registered.iter().any(|entry| entry.pattern.contains('*'))
}

/// The events to fan out; `types` are those in the table. A handler with several patterns gets an event once.
fn targets(registered: impl IntoIterator<Item = RegisteredType>, types: &[String]) -> Vec<Target> {
    let mut seen = BTreeSet::new();
    let mut targets = Vec::new();
    for entry in registered {
        let matching: Vec<&str> = match entry.pattern.contains('*') {
            true => {
                let pattern: Globs = [entry.pattern.as_str()].into_iter().collect();
                types.iter().map(String::as_str).filter(|name| pattern.matches(name)).collect()
            }
            false => vec![entry.pattern.as_str()],
        };
        for event_type in matching {
            if seen.insert((entry.handler.clone(), event_type.to_owned())) {
                targets.push(Target {
                    handler: entry.handler.clone(),
                    event_type: event_type.to_owned(),
                    since: entry.since,
                });
            }
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(handler: &str, pattern: &str) -> RegisteredType {
        let (handler, pattern) = (handler.to_owned(), pattern.to_owned());
        RegisteredType {
            handler,
            pattern,
            since: None,
            registered_at: Timestamp::default(),
            searched_at: None,
        }
    }

    #[test]
    fn a_handler_whose_patterns_overlap_gets_an_event_once() {
        let types = ["OrderPlaced".to_owned(), "UserAdded".to_owned()];
        let all = [
            registered("mail", "OrderPlaced"),
            registered("mail", "Order*"),
            registered("audit", "*"),
            registered("stock", "Missing"),
        ];
        let found: Vec<String> =
            targets(all, &types).iter().map(|t| format!("{} {}", t.handler, t.event_type)).collect();
        assert_eq!(found, ["mail OrderPlaced", "audit OrderPlaced", "audit UserAdded", "stock Missing"]);
    }
}

//! What the cases share: setup and checks.

use std::sync::Arc;
use std::time::Duration;

use postrider::ledger::{Intervals, LastSeen};
use postrider::store::{
    Acquired, Budget, Claimed, Claimer, Epoch, LeaseRequest, Loaded, Page, Renewed, Settlement, Start, Store,
};
use postrider::{Code, Error, Event, Position, Result, StoredEvent};

use super::{Database, Databases};

/// The subscription of cases that need only one.
pub(super) const NAME: &str = "mail";

/// More events than any case has.
pub(super) const PLENTY: Budget = Budget::new(1_000, 64 * 1024 * 1024);

/// The number of claims after which a case fails. A store needs several to prove that a position is empty.
const CLAIMS_MAX: usize = 200;

/// An empty outbox with one subscription from the beginning.
pub(super) async fn subscribed(databases: &Databases) -> Result<(Box<dyn Database>, Arc<dyn Store>)> {
    let under_test = databases.fresh().await?;
    let store = under_test.open().await?;
    assert!(store.subscribe(NAME, Start::Beginning).await?, "a new subscription is created");
    Ok((under_test, store))
}

/// Events that differ in id and payload.
pub(super) fn events(count: usize) -> Vec<Event> {
    (0..count).map(|n| Event::new("stage.event", format!("payload {n:03}"))).collect()
}

/// A lease that does not expire within a test.
pub(super) fn lease(holder: &str) -> LeaseRequest {
    LeaseRequest {
        subscription: NAME.to_owned(),
        holder: holder.to_owned(),
        duration: Duration::from_secs(600),
    }
}

/// Takes the lease; fails the case if it is not granted.
pub(super) async fn granted(store: &Arc<dyn Store>, holder: &str) -> Result<Loaded> {
    match store.acquire(lease(holder)).await? {
        Acquired::Granted(loaded) => Ok(*loaded),
        other => Err(failed(format!("{holder} should have the lease, but: {other:?}"))),
    }
}

/// The result of a renewal while no other process has changed anything.
pub(super) fn held(paused: Option<String>) -> Renewed {
    Renewed::Held { paused, parked_changed: false }
}

/// A settlement that records `done` and nothing else.
pub(super) fn settlement(epoch: Epoch, done: Intervals) -> Settlement {
    Settlement {
        subscription: NAME.to_owned(),
        epoch,
        done,
        highest: None,
        trial: None,
        park: Vec::new(),
        unpark: Vec::new(),
    }
}

/// A set of just these positions.
pub(super) fn set_of(positions: &[Position]) -> Intervals {
    let mut set = Intervals::default();
    positions.iter().for_each(|position| set.insert(*position));
    set
}

/// The mark of an event.
pub(super) fn mark(event: &StoredEvent) -> LastSeen {
    LastSeen { position: event.position, id: event.event.id }
}

/// One page or fails the case.
pub(super) async fn page(claimer: &mut Box<dyn Claimer>, budget: Budget) -> Result<Page> {
    match claimer.claim(budget).await? {
        Claimed::Page(page) => Ok(page),
        Claimed::HistoryChanged(why) => Err(failed(format!("the history did not change, but: {why}"))),
    }
}

/// Why the history changed, or fails the case.
pub(super) async fn history_change(claimer: &mut Box<dyn Claimer>) -> Result<String> {
    match claimer.claim(PLENTY).await? {
        Claimed::HistoryChanged(why) => Ok(why),
        Claimed::Page(page) => Err(failed(format!("the history changed, but a page came: {page:?}"))),
    }
}

/// Everything there is to read now.
pub(super) async fn drain(claimer: &mut Box<dyn Claimer>) -> Result<Vec<StoredEvent>> {
    let mut events = Vec::new();
    for _ in 0..CLAIMS_MAX {
        let page = page(claimer, PLENTY).await?;
        events.extend(page.events);
        if !page.has_unread {
            return Ok(events);
        }
    }
    Err(failed(format!("there is always more after {CLAIMS_MAX} claims")))
}

/// Claims until the position is reported empty. Answers all that was reported.
pub(super) async fn empty_until(claimer: &mut Box<dyn Claimer>, position: Position) -> Result<Intervals> {
    let mut empty = Intervals::default();
    for _ in 0..CLAIMS_MAX {
        let page = page(claimer, PLENTY).await?;
        page.empty_positions.into_iter().for_each(|(start, end)| empty.insert_range(start, end));
        if empty.contains(position) {
            return Ok(empty);
        }
    }
    Err(failed(format!("position {position} is not reported empty after {CLAIMS_MAX} claims")))
}

/// What a new owner of the subscription would read. Takes the lease only from `reader` itself.
pub(super) async fn unread(store: &Arc<dyn Store>) -> Result<Vec<Position>> {
    let loaded = granted(store, "reader").await?;
    Ok(positions(&drain(&mut store.claimer(&loaded.progress)).await?))
}

/// The positions of the events.
pub(super) fn positions(events: &[StoredEvent]) -> Vec<Position> {
    events.iter().map(|event| event.position).collect()
}

/// A case that failed outside an assertion.
pub(super) fn failed(what: impl Into<String>) -> Error {
    Error::new(Code::StoreFailed, what).with_hint("the store does not conform; see the case's source")
}

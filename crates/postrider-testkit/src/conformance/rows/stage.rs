//! What the cases share: setup and checks.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use postrider::ledger::{Intervals, ParkedRow, ParkedState};
use postrider::store::{
    Acquired, Budget, Claimed, Claimer, LeaseRequest, Loaded, Page, Settled, Settlement, Start, Store,
};
use postrider::{Code, Error, Position, Result, StoredEvent, Timestamp};

use super::{RowState, Table, Tables};

pub(super) const NAME: &str = "mail";

/// More events than any case has.
pub(super) const PLENTY: Budget = Budget::new(1_000, 64 * 1024 * 1024);

/// One owner of the table.
pub(super) struct Owner {
    pub(super) store: Arc<dyn Store>,
    pub(super) loaded: Loaded,
    pub(super) claimer: Box<dyn Claimer>,
    /// All positions that were settled.
    pub(super) done: Intervals,
}

/// An empty table with one subscription.
pub(super) async fn subscribed(tables: &Tables) -> Result<(Box<dyn Table>, Arc<dyn Store>)> {
    let under_test = tables.fresh().await?;
    let store = under_test.open().await?;
    assert!(store.subscribe(NAME, Start::Beginning).await?, "a new subscription is created");
    Ok((under_test, store))
}

/// A table with rows of one key, and an owner that has read them all.
pub(super) async fn owned(
    tables: &Tables,
    rows: usize,
) -> Result<(Box<dyn Table>, Owner, Vec<String>, Vec<StoredEvent>)> {
    let (table, store) = subscribed(tables).await?;
    let ids = table.write("k", rows).await?;
    let mut owner = Owner::new(store, "first").await?;
    let events = owner.read().await?;
    assert_eq!(events.len(), rows, "all rows are read");
    Ok((table, owner, ids, events))
}

impl Owner {
    pub(super) async fn new(store: Arc<dyn Store>, holder: &str) -> Result<Self> {
        match store.acquire(lease(holder)).await? {
            Acquired::Granted(loaded) => {
                let claimer = store.claimer(&loaded.progress);
                let done = loaded.progress.done.clone();
                Ok(Self { store, loaded: *loaded, claimer, done })
            }
            other => Err(failed(format!("{holder} should have the lease, but: {other:?}"))),
        }
    }

    /// The next owner, in another process, after the lease of this one expired.
    pub(super) async fn successor(table: &dyn Table, holder: &str) -> Result<Self> {
        table.expire_lease().await?;
        let owner = Self::new(table.open().await?, holder).await?;
        assert!(owner.loaded.previous.is_some(), "it learns whose lease has expired");
        Ok(owner)
    }

    pub(super) async fn page(&mut self, budget: Budget) -> Result<Page> {
        match self.claimer.claim(budget).await? {
            Claimed::Page(page) => Ok(page),
            Claimed::HistoryChanged(why) => Err(failed(format!("the history did not change, but: {why}"))),
        }
    }

    /// Reads all due rows.
    pub(super) async fn read(&mut self) -> Result<Vec<StoredEvent>> {
        let mut events = Vec::new();
        for _ in 0..100 {
            let page = self.page(PLENTY).await?;
            page.empty_positions.iter().for_each(|(first, last)| self.done.insert_range(*first, *last));
            events.extend(page.events);
            if !page.has_unread {
                return Ok(events);
            }
        }
        Err(failed("there is always more after 100 claims"))
    }

    pub(super) fn settlement(&self) -> Settlement {
        Settlement {
            subscription: NAME.to_owned(),
            epoch: self.loaded.epoch,
            done: self.done.clone(),
            highest: None,
            trial: None,
            park: Vec::new(),
            unpark: Vec::new(),
        }
    }

    /// Settles events as delivered.
    pub(super) async fn deliver(&mut self, events: &[StoredEvent]) -> Result<()> {
        events.iter().for_each(|event| self.done.insert(event.position));
        self.settle(self.settlement()).await
    }

    pub(super) async fn park(&mut self, rows: Vec<ParkedRow>) -> Result<()> {
        rows.iter().for_each(|row| self.done.insert(row.position));
        self.settle(Settlement { park: rows, ..self.settlement() }).await
    }

    pub(super) async fn unpark(&self, position: Position) -> Result<()> {
        self.settle(Settlement { unpark: vec![position], ..self.settlement() }).await
    }

    pub(super) async fn settle(&self, settlement: Settlement) -> Result<()> {
        match self.store.settle(settlement).await? {
            Settled::Done => Ok(()),
            Settled::ParkedChanged => Err(failed("no row was changed")),
            Settled::Fenced => Err(failed("the settlement should not be fenced")),
        }
    }
}

pub(super) fn lease(holder: &str) -> LeaseRequest {
    LeaseRequest {
        subscription: NAME.to_owned(),
        holder: holder.to_owned(),
        duration: Duration::from_secs(600),
    }
}

/// A parked row as the relay writes it.
pub(super) fn parked(event: &StoredEvent, state: ParkedState, attempts: u32) -> ParkedRow {
    ParkedRow {
        position: event.position,
        key: event.event.ordering_key().map(Cow::into_owned),
        destination: Some("mail".to_owned()),
        state,
        attempts,
        next_attempt_at: (state == ParkedState::Retry).then(|| later(event)),
        last_error: Some("no such mailbox".to_owned()),
        redelivery: None,
    }
}

/// A time after the end of every case.
pub(super) fn later(event: &StoredEvent) -> Timestamp {
    event.event.time.after(Duration::from_secs(3_600))
}

/// The state of a row; fails the case if the row does not exist.
pub(super) async fn state(table: &dyn Table, id: &str) -> Result<(RowState, u32)> {
    table.row(id).await?.ok_or_else(|| failed(format!("row {id} is gone")))
}

/// The error of an operation that must be refused.
pub(super) fn refused<T: std::fmt::Debug>(answer: Result<T>) -> Result<Error> {
    match answer {
        Err(error) => Ok(error),
        Ok(answer) => Err(failed(format!("it should be refused, but: {answer:?}"))),
    }
}

/// Fails the case outside an assertion.
pub(super) fn failed(what: impl Into<String>) -> Error {
    Error::new(Code::StoreFailed, what).with_hint("the store does not conform; see the case's source")
}

//! What a table with a state per row knows about one event.

use std::sync::Arc;

use uuid::Uuid;

use super::dialect::{RowTx, StoredSubscription, TxVerb};
use super::parked::parked_items;
use super::read::ReadRow;
use crate::layout::{Ability, RowLayout, RowTable};
use crate::operate::ParkedItem;
use crate::operate::explain::{Absent, EventFacts, EventIdentity, Place, SubscriptionFacts};
use crate::route::Globs;
use crate::store::ParkedState;
use crate::{Error, Event, Result, Timestamp};

/// The row ids that a text may mean, in a form that the column of ids accepts.
pub(super) fn candidates(table: &RowTable, text: &str) -> Vec<String> {
    let (id, number) = (Uuid::parse_str(text).ok(), text.parse::<u64>().ok());
    let derived = id.and_then(derived_number).map(|number| number.to_string());
    let number = number.map(|number| number.to_string()).or(derived);
    match table.layout() {
        RowLayout::Custom => [Some(text.to_owned()), number].into_iter().flatten().collect(),
        layout if layout.has(Ability::Uuids) => id.map(|id| id.to_string()).into_iter().collect(),
        _ => number.into_iter().collect(),
    }
}

/// The number of the row in an id that was derived from it; see [`derived_id`](crate::layout::derived_id).
fn derived_number(id: Uuid) -> Option<u64> {
    let (_, low) = id.as_u64_pair();
    (id.get_version_num() == 8).then_some(low & 0x3fff_ffff_ffff_ffff)
}

/// Whether a row is the one that a text means: a derived number may be that of another row.
pub(super) fn is_meant(row: &ReadRow, text: &str) -> bool {
    match (Uuid::parse_str(text), &row.event) {
        (Ok(id), Ok(event)) => event.id == id || *row.state.id == *text,
        _ => true,
    }
}

/// Finds the row of an event by the id of the event, if the table has a column with an index for it.
pub(super) struct FindRow {
    pub(super) id: String,
}

impl TxVerb for FindRow {
    type Output = Option<String>;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Option<String>> {
        tx.find_by_event_id(&self.id).await
    }
}

/// What the table and its subscription know about a row.
pub(super) struct AboutRow {
    pub(super) row: Option<ReadRow>,
    pub(super) table: Arc<RowTable>,
}

impl TxVerb for AboutRow {
    type Output = EventFacts;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<EventFacts> {
        let mut facts = EventFacts::new(tx.now().await?);
        let Some(row) = self.row else {
            facts.absent = Some(absent(tx).await?);
            return Ok(facts);
        };
        let event = row.event.as_ref().ok();
        let identity = EventIdentity::new(&*row.state.id, event);
        facts.damaged = row.event.as_ref().err().map(Error::one_line);
        for subscription in tx.subscriptions().await? {
            let items = parked_items(tx, &subscription.name).await?;
            let place = place(tx, &row, &self.table, &items, facts.now).await?;
            let head = head(&items, &place, identity.key.as_deref());
            let mut of = of_subscription(tx, subscription, place).await?;
            of.head = head;
            facts.subscriptions.push(of);
        }
        facts.event = Some(identity);
        facts.content = row.event.ok().map(Arc::new);
        Ok(facts)
    }
}

async fn place<T: RowTx>(
    tx: &mut T,
    row: &ReadRow,
    table: &RowTable,
    items: &[ParkedItem],
    now: Timestamp,
) -> Result<Place> {
    let (state, attempts) = (&row.state, row.state.attempts_before());
    if !state.is_open {
        return Ok(Place::Done { before: Some(now) });
    }
    if let Some(item) = items.iter().find(|item| item.row == *state.id) {
        return Ok(Place::Parked(Box::new(item.clone())));
    }
    if tx.marked_rows().await?.iter().any(|(id, _)| **id == *state.id) {
        return Ok(Place::Marked);
    }
    Ok(match state.is_due {
        true => Place::Backlog { ahead: None },
        false if attempts >= state.limit => Place::GivenUp { attempts },
        false if table.layout().has(Ability::PublishingState) => Place::Marked,
        false => Place::Scheduled { at: None, attempts },
    })
}

/// The parked event of a key that an event waits for.
fn head(items: &[ParkedItem], place: &Place, key: Option<&str>) -> Option<ParkedItem> {
    let (own, key) = match place {
        Place::Parked(item) if item.state == ParkedState::Behind.as_str() => {
            (Some(item.row.as_str()), item.key.as_deref())
        }
        Place::Backlog { .. } => (None, key),
        _ => return None,
    };
    let before = items.iter().take_while(|item| Some(item.row.as_str()) != own);
    let is_final = |item: &ParkedItem| ParkedState::from_word(&item.state).is_some_and(ParkedState::is_final);
    before
        .filter(|item| key.is_some() && item.key.as_deref() == key)
        .filter(|item| item.state != ParkedState::Behind.as_str() && (own.is_some() || !is_final(item)))
        .last()
        .cloned()
}

async fn of_subscription<T: RowTx>(
    tx: &mut T,
    subscription: StoredSubscription,
    place: Place,
) -> Result<SubscriptionFacts> {
    let StoredSubscription { name, paused, halted, .. } = subscription;
    let mut facts = SubscriptionFacts::new(name, place);
    (facts.paused, facts.halted) = (paused, halted);
    facts.lease = tx.lease(&facts.name).await?;
    facts.relays = tx.relays(&facts.name).await?;
    Ok(facts)
}

async fn absent<T: RowTx>(tx: &mut T) -> Result<Absent> {
    let transactions = tx.open_writers().await?;
    Ok(match transactions.is_empty() {
        true => Absent::Unknown { searched: None },
        false => Absent::TransactionOpen { transactions },
    })
}

/// What the subscriptions know about the parked rows of a key.
pub(super) struct AboutKey {
    pub(super) key: String,
}

impl TxVerb for AboutKey {
    type Output = EventFacts;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<EventFacts> {
        let mut facts = EventFacts::new(tx.now().await?);
        for subscription in tx.subscriptions().await? {
            let items = parked_items(tx, &subscription.name).await?;
            let of_key = || items.iter().filter(|item| item.key.as_ref() == Some(&self.key));
            let waits = |item: &&ParkedItem| {
                ParkedState::from_word(&item.state).is_none_or(|state| !state.is_final())
            };
            let Some(first) = of_key().find(waits).or_else(|| of_key().next()) else { continue };
            let mut identity = EventIdentity::new(first.row.as_str(), None);
            identity.key = first.key.clone();
            let place = Place::Parked(Box::new(first.clone()));
            let mut of = of_subscription(tx, subscription, place).await?;
            of.event = Some(identity);
            facts.subscriptions.push(of);
        }
        if facts.subscriptions.is_empty() {
            facts.absent = Some(Absent::NothingParked);
        }
        Ok(facts)
    }
}

/// An event of layout `eventlog`, and its notifications.
#[derive(Debug)]
#[cfg_attr(not(feature = "_server"), allow(dead_code, reason = "SQLite does not have layout eventlog"))]
pub(crate) struct LoggedEvent {
    /// `None` if the row records an action without events.
    pub(crate) event_type: Option<String>,
    pub(crate) model: Option<crate::Aggregate>,
    pub(crate) payload: Option<String>,
    pub(crate) date: Timestamp,
    pub(crate) is_fanned_out: bool,
    pub(crate) notifications: Vec<LoggedNotification>,
}

/// The notification of one handler.
#[derive(Debug)]
#[cfg_attr(not(feature = "_server"), allow(dead_code, reason = "SQLite does not have layout eventlog"))]
pub(crate) struct LoggedNotification {
    pub(crate) handler: String,
    pub(crate) id: String,
    pub(crate) state: String,
    pub(crate) attempts: u32,
    pub(crate) next_retry_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

/// What every handler knows about an event of layout `eventlog`.
pub(super) struct AboutLogged {
    pub(super) id: String,
}

impl TxVerb for AboutLogged {
    type Output = EventFacts;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<EventFacts> {
        let mut facts = EventFacts::new(tx.now().await?);
        let id = Uuid::parse_str(&self.id).ok().map(|id| id.to_string());
        let logged = match &id {
            Some(id) => tx.logged_event(id).await?,
            None => None,
        };
        let (Some(id), Some(logged)) = (id, logged) else {
            facts.absent = Some(absent(tx).await?);
            return Ok(facts);
        };
        for subscription in tx.subscriptions().await? {
            let items = parked_items(tx, &subscription.name).await?;
            let place = notified(tx, &subscription.name, &logged, &items, facts.now).await?;
            let key = key(&logged);
            let head = head(&items, &place, key.as_deref());
            let mut of = of_subscription(tx, subscription, place).await?;
            of.head = head;
            facts.subscriptions.push(of);
        }
        facts.content = content(&id, &logged).map(Arc::new);
        facts.event = Some(EventIdentity {
            row: id.clone(),
            id: Some(id),
            key: key(&logged),
            event_type: logged.event_type,
            time: Some(logged.date),
        });
        Ok(facts)
    }
}

/// The event that handlers receive; `None` for an action without events.
fn content(id: &str, logged: &LoggedEvent) -> Option<Event> {
    let event_type = logged.event_type.clone()?;
    let payload = logged.payload.clone().unwrap_or_default();
    let mut event = Event::bare(Uuid::parse_str(id).ok()?, event_type, payload.into(), logged.date);
    event.aggregate = logged.model.clone();
    Some(event)
}

fn key(logged: &LoggedEvent) -> Option<String> {
    let model = logged.model.clone()?;
    let event = Event { aggregate: Some(model), ..Event::new("", "") };
    event.ordering_key().map(|key| key.into_owned())
}

/// Where an event is for one handler.
async fn notified<T: RowTx>(
    tx: &mut T,
    name: &str,
    logged: &LoggedEvent,
    items: &[ParkedItem],
    now: Timestamp,
) -> Result<Place> {
    let mut names = tx.aliases_of(name).await?;
    names.push(name.to_owned());
    let Some(of) = logged.notifications.iter().find(|of| names.contains(&of.handler)) else {
        let Some(event_type) = &logged.event_type else { return Ok(Place::NotWanted) };
        let registered = tx.registered().await?;
        let wants = registered.iter().filter(|entry| entry.handler == name).any(|entry| {
            let pattern: Globs = [entry.pattern.as_str()].into_iter().collect();
            pattern.matches(event_type) && entry.since.is_none_or(|since| logged.date >= since)
        });
        return Ok(if wants && !logged.is_fanned_out { Place::NotFannedOut } else { Place::NotWanted });
    };
    if let Some(item) = items.iter().find(|item| item.row == of.id) {
        return Ok(Place::Parked(Box::new(item.clone())));
    }
    Ok(match of.state.as_str() {
        "SUCCEEDED" => Place::Done { before: Some(of.updated_at) },
        "EXPIRED" => Place::Expired { at: Some(of.updated_at) },
        _ if of.next_retry_at > now || of.state == "FAILED" => {
            Place::Scheduled { at: Some(of.next_retry_at), attempts: of.attempts }
        }
        _ => Place::Backlog { ahead: None },
    })
}

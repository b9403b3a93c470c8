//! What an outbox of the default layout knows about one event: the part that is the same on every database.
//!
//! The table has one index, on the position. The time in an id (UUIDv7) is close to the time of its event, and times
//! increase with positions, so an id is searched in positions around that time.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::list::id_time;
use super::log_tx::LogTx;
use super::search::first_at;
use super::subscription::unknown;
use super::{Fetched, ParkedState};
use crate::ledger::Intervals;
use crate::operate::explain::{Absent, EventFacts, EventIdentity, OpenWriter, Place, SubscriptionFacts};
use crate::operate::{ParkedCount, ParkedItem};
use crate::{Event, Position, Result, Timestamp};

/// Positions on each side of the time in an id that are searched, one step after another.
const SEARCH_STEPS: [i64; 3] = [1_000, 20_000, 200_000];

/// Unfinished events before an event are counted up to this number.
const AHEAD_MAX: u64 = 10_000;

/// Unfinished positions in which the first event of a key is searched.
const KEY_POSITIONS_MAX: i64 = 100_000;

/// Maximum number of bytes of an event that is read to explain it. One event is read whatever its size.
pub(super) const EVENT_BYTES_MAX: usize = 1 << 20;

/// A transaction that contains an event begins at most this long after the event was created.
const TRANSACTION_BEGAN_WITHIN: Duration = Duration::from_secs(60);

/// What else an explanation needs to know in a transaction.
pub(super) trait FactsTx: LogTx {
    /// The position of the event with this id in a range of positions. Index: the primary key (position), one range.
    fn position_of(
        &mut self,
        id: Uuid,
        first: Position,
        last: Position,
    ) -> impl Future<Output = Result<Option<Position>>> + Send;

    /// The first event with this ordering key in a range of positions. Index: the primary key (position), one range.
    fn first_of_key(
        &mut self,
        key: &str,
        first: Position,
        last: Position,
    ) -> impl Future<Output = Result<Option<Position>>> + Send;

    /// The parked row of a position. Index: the primary key (subscription, position).
    fn parked_at(
        &mut self,
        name: &str,
        position: Position,
    ) -> impl Future<Output = Result<Option<ParkedItem>>> + Send;

    /// Rows of a key below a position that do not wait behind another, the highest first: at most one. Index: the primary
    /// key (subscription, position), backwards.
    fn parked_head(
        &mut self,
        name: &str,
        key: &str,
        below: Position,
    ) -> impl Future<Output = Result<Option<ParkedItem>>> + Send;

    /// When the progress of a subscription was last recorded. Index: the primary key (name).
    fn recorded_at(&mut self, name: &str) -> impl Future<Output = Result<Option<Timestamp>>> + Send;

    /// Transactions that have written events and are still open, as far as the database shows them.
    fn open_writers(&mut self) -> impl Future<Output = Result<Vec<OpenWriter>>> + Send;
}

/// The event at a position, as it was read again.
pub(super) struct ReadEvent {
    position: Position,
    identity: EventIdentity,
    content: Option<Arc<Event>>,
    damaged: Option<String>,
    exists: bool,
}

impl ReadEvent {
    pub(super) fn of(position: Position, fetched: Fetched) -> Self {
        let event = fetched.events.into_iter().find(|event| event.position == position);
        let damaged = fetched.damaged.into_iter().find(|(at, _)| *at == position).map(|(_, why)| why);
        let identity = EventIdentity::new(position.to_string(), event.as_ref().map(|event| &*event.event));
        let exists = event.is_some() || damaged.is_some();
        Self { position, identity, exists, content: event.map(|event| event.event), damaged }
    }
}

/// The position that a text means: a position, or the id of an event. `None` if there is no such event.
pub(super) async fn find<T: FactsTx>(tx: &mut T, event: &str) -> Result<Option<Position>> {
    if let Ok(number) = event.parse() {
        return Ok(Some(Position::new(number)));
    }
    let Ok(id) = Uuid::parse_str(event) else { return Ok(None) };
    let last = tx.last_position().await?;
    let Some((first, _)) = tx.times_within(Position::ZERO, last, 1).await?.first().copied() else {
        return Ok(None);
    };
    let middle = match id_time(id) {
        Some(time) => first_at(tx, time, first, last).await?,
        None => last,
    };
    let (mut lower, mut upper) = (middle, middle.previous());
    for step in SEARCH_STEPS {
        let start = Position::new(middle.get().saturating_sub(step)).max(first);
        let end = Position::new(middle.get().saturating_add(step)).min(last);
        for (start, end) in [(upper.next(), end), (start, lower.previous())] {
            if start <= end
                && let Some(found) = tx.position_of(id, start, end).await?
            {
                return Ok(Some(found));
            }
        }
        (lower, upper) = (start.min(lower), end.max(upper));
    }
    Ok(None)
}

/// What every subscription knows about an event.
pub(super) async fn about_event<T: FactsTx>(
    tx: &mut T,
    sought: &str,
    read: Option<ReadEvent>,
) -> Result<EventFacts> {
    let mut facts = EventFacts::new(tx.clock().await?);
    let Some(read) = read.filter(|read| read.exists) else {
        facts.absent = Some(absent(tx, sought).await?);
        return Ok(facts);
    };
    for name in tx.subscriptions().await? {
        facts.subscriptions.push(about(tx, name, &read).await?);
    }
    (facts.event, facts.damaged, facts.content) = (Some(read.identity), read.damaged, read.content);
    Ok(facts)
}

/// The first unfinished event of a key in every subscription that has one; the position of each.
pub(super) async fn of_key<T: FactsTx>(tx: &mut T, key: &str) -> Result<Vec<(String, Position)>> {
    let (mut found, last) = (Vec::new(), tx.last_position().await?);
    for name in tx.subscriptions().await? {
        let row = tx.load(&name).await?.ok_or_else(|| unknown(&name))?;
        let head = tx
            .parked_head(&name, key, Position::LAST)
            .await?
            .filter(|head| ParkedState::from_word(&head.state).is_none_or(|state| !state.is_final()));
        let parked = head.and_then(|head| head.row.parse().ok()).map(Position::new);
        let first = match parked {
            Some(position) => Some(position),
            None => first_unfinished(tx, key, &row.progress.done, last).await?,
        };
        // A final row is worth an answer only if nothing of the key waits.
        let first = match first {
            Some(position) => Some(position),
            None => {
                let head = tx.parked_head(&name, key, Position::LAST).await?;
                head.and_then(|head| head.row.parse().ok()).map(Position::new)
            }
        };
        found.extend(first.map(|position| (name, position)));
    }
    Ok(found)
}

async fn first_unfinished<T: FactsTx>(
    tx: &mut T,
    key: &str,
    done: &Intervals,
    last: Position,
) -> Result<Option<Position>> {
    let mut left = KEY_POSITIONS_MAX;
    for (start, end) in done.gaps(last) {
        let end = end.min(Position::new(start.get().saturating_add(left)));
        if let Some(found) = tx.first_of_key(key, start, end).await? {
            return Ok(Some(found));
        }
        left -= end.get() - start.get() + 1;
        if left <= 0 {
            break;
        }
    }
    Ok(None)
}

/// What the subscriptions know about the events of a key.
pub(super) async fn about_key<T: FactsTx>(
    tx: &mut T,
    events: Vec<(String, ReadEvent)>,
) -> Result<EventFacts> {
    let mut facts = EventFacts::new(tx.clock().await?);
    for (name, read) in events.into_iter().filter(|(_, read)| read.exists) {
        let mut of = about(tx, name, &read).await?;
        (of.event, of.damaged) = (Some(read.identity), read.damaged);
        facts.subscriptions.push(of);
    }
    if facts.subscriptions.is_empty() {
        facts.absent = Some(Absent::NothingWaits);
    }
    Ok(facts)
}

async fn about<T: FactsTx>(tx: &mut T, name: String, read: &ReadEvent) -> Result<SubscriptionFacts> {
    let row = tx.load(&name).await?.ok_or_else(|| unknown(&name))?;
    let parked = tx.parked_at(&name, read.position).await?;
    let is_behind = |item: &ParkedItem| item.state == ParkedState::Behind.as_str();
    let key = parked.as_ref().and_then(|item| item.key.clone()).or_else(|| read.identity.key.clone());
    let is_done = row.progress.done.contains(read.position);
    let mut head = None;
    if let Some(key) = key
        && parked.as_ref().map_or(!is_done, is_behind)
    {
        head = tx.parked_head(&name, &key, read.position).await?;
    }
    let place = match parked {
        Some(item) => Place::Parked(Box::new(item)),
        None if is_done => Place::Done { before: tx.recorded_at(&name).await? },
        None => {
            // A dead event of the key does not delay it, unless the relay parked it behind that event.
            head =
                head.filter(|head| ParkedState::from_word(&head.state).is_none_or(|state| !state.is_final()));
            Place::Backlog { ahead: Some(ahead(tx, &row.progress.done, read.position).await?) }
        }
    };
    let mut facts = SubscriptionFacts::new(name, place);
    facts.head = head;
    (facts.paused, facts.halted) = (row.paused, row.halted);
    facts.lease = tx.lease(&facts.name).await?;
    facts.relays = tx.relays(&facts.name).await?;
    Ok(facts)
}

/// How many unfinished events are before a position.
async fn ahead<T: FactsTx>(tx: &mut T, done: &Intervals, position: Position) -> Result<ParkedCount> {
    let gaps = done.gaps(position.previous());
    let events = if gaps.is_empty() { 0 } else { tx.count_within(gaps, AHEAD_MAX).await?.0 };
    Ok(ParkedCount::up_to(events, AHEAD_MAX))
}

/// Why there is no such event.
async fn absent<T: FactsTx>(tx: &mut T, sought: &str) -> Result<Absent> {
    let last = tx.last_position().await?;
    let oldest = tx.times_within(Position::ZERO, last, 1).await?.first().copied();
    let position = sought.parse().ok().map(Position::new);
    if position.is_some_and(|position| position > last) {
        return Ok(Absent::NotReached { last: last.to_string() });
    }
    let time = Uuid::parse_str(sought).ok().and_then(id_time);
    let is_old = |(first, at): &(Position, Timestamp)| {
        // An id has the millisecond of its event, the event the microsecond.
        let is_before = |time: Timestamp| time.after(Duration::from_millis(1)) <= *at;
        position.is_some_and(|position| position < *first) || time.is_some_and(is_before)
    };
    let removed = oldest.filter(is_old).map(|(_, oldest)| oldest);
    let mut transactions = tx.open_writers().await?;
    if let Some(oldest) = removed {
        // Only a transaction that was open at that time can contain it.
        let latest = time.unwrap_or(oldest).after(TRANSACTION_BEGAN_WITHIN);
        transactions.retain(|transaction| transaction.since.is_none_or(|since| since <= latest));
    }
    if !transactions.is_empty() {
        return Ok(Absent::TransactionOpen { transactions });
    }
    Ok(match (removed, position) {
        (Some(oldest), _) => Absent::RemovedByRetention { oldest },
        (None, Some(_)) => Absent::Empty,
        (None, None) => Absent::Unknown { searched: oldest.map(|(first, _)| searched(first, last)) },
    })
}

/// How many positions a search for an id covers.
fn searched(first: Position, last: Position) -> u64 {
    let all = last.get().saturating_sub(first.get()).saturating_add(1);
    let [.., widest] = SEARCH_STEPS;
    all.min(2 * widest + 1).unsigned_abs()
}

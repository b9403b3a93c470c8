//! How a table is doing. Rows have no positions that outlive a session; here their place is the microsecond of their
//! creation, which is what they are ordered by.

use super::dialect::{RowTx, TxVerb, WaitingRows};
use super::load::NotedRow;
use crate::ledger::{ParkedRow, ParkedState};
use crate::store::{Backlog, Overview, ParkedOverview, SubscriptionOverview};
use crate::{Position, Result, Timestamp};

/// See [`Store::overview`](crate::store::Store::overview).
pub(crate) struct ReadOverview {
    pub(crate) backlog_max: u64,
}

impl TxVerb for ReadOverview {
    type Answer = Overview;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Overview> {
        let newest = tx.newest().await?;
        let now = tx.now().await?;
        let mut subscriptions = Vec::new();
        for status in tx.subscriptions().await? {
            // One more than fits tells whether there are more.
            let waiting = tx.backlog(self.backlog_max.saturating_add(1)).await?;
            subscriptions.push(SubscriptionOverview {
                epoch: status.epoch,
                floor: Position::ZERO,
                backlog: backlog(waiting, self.backlog_max),
                parked: parked(tx.notes().await?),
                lease: tx.lease(&status.name).await?,
                relays: tx.relays(&status.name).await?,
                clean: status.clean,
                paused: status.paused,
                halted: status.halted,
                name: status.name,
            });
        }
        let last = newest.map_or(Position::ZERO, place);
        Ok(Overview { now, last, oldest: None, newest: None, subscriptions })
    }
}

/// Where a row stands.
fn place(created: Timestamp) -> Position {
    Position::new(created.as_micros())
}

/// What waits: rows were counted up to one more than `max`. The place of the first is not always the time it was made.
fn backlog(waiting: WaitingRows, max: u64) -> Backlog {
    let WaitingRows { events, first, oldest } = waiting;
    Backlog { events: events.min(max), more: events > max, first: first.map(place), oldest }
}

/// What is parked: all notes about rows that are there and not delivered.
fn parked(notes: Vec<NotedRow>) -> ParkedOverview {
    let mut all: Vec<ParkedRow> = Vec::new();
    for note in notes.into_iter().filter(|note| !note.is_done) {
        let (Some(created), Some(state)) = (note.created, ParkedState::from_word(&note.state)) else {
            continue;
        };
        all.push(note.parked(place(created), state));
    }
    all.sort_by_key(|row| row.position);
    let mut overview: ParkedOverview = all.into_iter().collect();
    overview.oldest = overview.first.map(|place| Timestamp::from_micros(place.get()));
    overview
}

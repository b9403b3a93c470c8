//! The overview of a table. The positions of rows end with the term, so the overview uses the creation time of a
//! row, in microseconds, as its position: rows are ordered by it.

use super::dialect::{BacklogRows, RowTx, TxVerb};
use super::load::NotedRow;
use crate::ledger::{ParkedRow, ParkedState};
use crate::store::{Backlog, Overview, ParkedOverview, SubscriptionOverview};
use crate::{Position, Result, Timestamp};

/// See [`Store::overview`](crate::store::Store::overview).
pub(crate) struct ReadOverview {
    pub(crate) backlog_max: u64,
}

impl TxVerb for ReadOverview {
    type Output = Overview;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Overview> {
        let newest = tx.newest().await?;
        let now = tx.now().await?;
        let mut subscriptions = Vec::new();
        for status in tx.subscriptions().await? {
            // Counting one more than the limit shows whether there are more.
            let rows = tx.backlog(&status.name, self.backlog_max.saturating_add(1)).await?;
            subscriptions.push(SubscriptionOverview {
                epoch: status.epoch,
                floor: Position::ZERO,
                backlog: backlog(rows, self.backlog_max),
                parked: parked(tx.notes(&status.name).await?),
                lease: tx.lease(&status.name).await?,
                relays: tx.relays(&status.name).await?,
                clean: status.clean,
                paused: status.paused,
                halted: status.halted,
                name: status.name,
            });
        }
        let last = newest.map_or(Position::ZERO, position);
        let oldest_transaction = tx.oldest_transaction().await?;
        Ok(Overview { now, last, oldest: None, newest: None, oldest_transaction, subscriptions })
    }
}

/// The position of a row in the overview.
fn position(created: Timestamp) -> Position {
    Position::new(created.as_micros())
}

/// The backlog, from rows that were counted up to one more than `max`.
fn backlog(rows: BacklogRows, max: u64) -> Backlog {
    let BacklogRows { events, first, oldest } = rows;
    Backlog { events: events.min(max), more: events > max, first: first.map(position), oldest }
}

/// The parked rows: those with a note that exist and are not delivered.
fn parked(notes: Vec<NotedRow>) -> ParkedOverview {
    let mut all: Vec<ParkedRow> = Vec::new();
    for note in notes.into_iter().filter(|note| !note.is_done) {
        let (Some(created), Some(state)) = (note.created, ParkedState::from_word(&note.state)) else {
            continue;
        };
        all.push(note.parked(position(created), state));
    }
    all.sort_by_key(|row| row.position);
    let mut overview: ParkedOverview = all.into_iter().collect();
    overview.oldest = overview.first.map(|first| Timestamp::from_micros(first.get()));
    overview
}

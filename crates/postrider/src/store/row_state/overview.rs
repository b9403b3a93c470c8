//! How a table is doing. Rows have no positions that outlive a session; here their place is the microsecond of their
//! creation, which is what they are ordered by.

use super::load::NotedRow;
use crate::ledger::{ParkedRow, ParkedState};
use crate::store::{Backlog, ParkedOverview};
use crate::{Position, Timestamp};

/// Where a row stands.
pub(crate) fn place(created: Timestamp) -> Position {
    Position::new(created.as_micros())
}

/// What waits: `events` were counted up to one more than `max`; the place of the first is not always the time it was made.
pub(crate) fn backlog(events: u64, first: Option<Timestamp>, oldest: Option<Timestamp>, max: u64) -> Backlog {
    Backlog { events: events.min(max), more: events > max, first: first.map(place), oldest }
}

/// What is parked: all notes about rows that are there and not delivered.
pub(crate) fn parked(notes: Vec<NotedRow>) -> ParkedOverview {
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

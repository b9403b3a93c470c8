//! Detects that the history of a database changed: it was replaced by an older copy of itself or by another database.

use uuid::Uuid;

use crate::ledger::{LastSeen, Progress};
use crate::{Position, StoredEvent};

/// What a reader has seen of a database: enough to detect another history.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// The highest event known. If its position holds another event, the history changed.
    highest: Option<LastSeen>,
    /// The outbox contained positions up to this one.
    reached: Position,
}

impl Seen {
    /// What a recorded progress proves.
    pub(super) fn by(progress: &Progress) -> Self {
        let highest = progress.highest;
        let reached = progress.done.highest().max(highest.map_or(Position::ZERO, |mark| mark.position));
        Self { highest, reached }
    }

    /// The highest event known.
    pub(super) fn highest(&self) -> Option<LastSeen> {
        self.highest
    }

    /// The highest position that was seen to be taken.
    #[cfg(feature = "mysql")]
    pub(super) fn reached(&self) -> Position {
        self.reached
    }

    /// How the history changed, as a sentence for operators; `None` if it did not. `last` is the highest position taken
    /// now, `found` the id of the event that now has the position of the highest one known.
    pub(super) fn change(&self, last: Position, found: Option<Uuid>) -> Option<String> {
        if last < self.reached {
            return Some(format!(
                "position {} was seen before, but the outbox now ends at {last}: \
                 an older copy of the database is in place, or its sequence was reset",
                self.reached
            ));
        }
        let LastSeen { position, id } = self.highest?;
        match found {
            Some(found) if found == id => None,
            Some(found) => Some(format!(
                "position {position} held event {id} and now holds {found}: another copy of the database is in place"
            )),
            None => Some(format!(
                "event {id} at position {position}, the last one seen, no longer exists: it was deleted, \
                 or an older copy of the database is in place"
            )),
        }
    }

    /// Adds what one claim has read: events in ascending order, of an outbox that reaches to `last`.
    pub(super) fn advance(&mut self, last: Position, events: &[StoredEvent]) {
        self.reached = self.reached.max(last);
        if let Some(event) = events.last()
            && self.highest.is_none_or(|mark| mark.position < event.position)
        {
            self.highest = Some(LastSeen { position: event.position, id: event.event.id });
        }
    }
}

/// The operator's choice to continue at the floor. Only offered if events and progress were restored together: only
/// then does the floor belong to this history.
#[cfg(feature = "_server")]
pub(super) fn floor_offer(floor: Position) -> String {
    format!(
        "`--from floor` continues after position {floor}: it may repeat events and skips none. A later \
         position skips the events written since then"
    )
}

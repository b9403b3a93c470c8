//! The events that the writers wrote. The checkers compare deliveries with them.

use std::time::Duration;

use postrider::{Event, Position};
use uuid::Uuid;

use crate::sink::Poison;

/// One event, as its writer intended it.
#[derive(Debug, Clone)]
pub(crate) struct WrittenEvent {
    pub(crate) position: Position,
    pub(crate) key: Option<u32>,
    /// The number of this event among the committed events of its key.
    pub(crate) version: u32,
    pub(crate) topic: usize,
    pub(crate) poison: Option<Poison>,
    pub(crate) expires: bool,
    /// The time of the commit, if its transaction was committed.
    pub(crate) committed: Option<Duration>,
}

/// All events that were ever written, including those of lost histories. The index of an event is in its id.
#[derive(Debug, Default)]
pub(crate) struct WrittenEvents(Vec<WrittenEvent>);

impl WrittenEvents {
    /// The id of the next event.
    pub(crate) fn next_id(&self) -> Uuid {
        Uuid::from_u128(self.0.len() as u128)
    }

    pub(crate) fn add(&mut self, written: WrittenEvent) -> usize {
        self.0.push(written);
        self.0.len() - 1
    }

    pub(crate) fn number(event: &Event) -> usize {
        event.id.as_u128() as usize
    }

    pub(crate) fn get(&self, number: usize) -> &WrittenEvent {
        &self.0[number]
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> &mut WrittenEvent {
        &mut self.0[number]
    }

    pub(crate) fn of(&self, event: &Event) -> &WrittenEvent {
        self.get(Self::number(event))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl std::fmt::Display for WrittenEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{}", self.position)?;
        match self.key {
            Some(key) => write!(f, "(k{key} v{})", self.version),
            None => Ok(()),
        }
    }
}

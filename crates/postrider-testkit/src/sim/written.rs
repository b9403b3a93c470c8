//! What the writers wrote: the truth the checkers compare with.

use std::time::Duration;

use postrider::{Event, Position};
use uuid::Uuid;

use crate::sink::Poison;

/// One event, as the writer meant it.
#[derive(Debug, Clone)]
pub(crate) struct Fact {
    pub(crate) position: Position,
    pub(crate) key: Option<u32>,
    /// Counts the committed events of the key.
    pub(crate) version: u32,
    pub(crate) topic: usize,
    pub(crate) poison: Option<Poison>,
    pub(crate) expires: bool,
    /// When its transaction was committed, if it was.
    pub(crate) committed: Option<Duration>,
}

/// Everything ever written, lost histories included. A fact's number is in its event's id.
#[derive(Debug, Default)]
pub(crate) struct Facts(Vec<Fact>);

impl Facts {
    /// The id of the next fact.
    pub(crate) fn next_id(&self) -> Uuid {
        Uuid::from_u128(self.0.len() as u128)
    }

    pub(crate) fn add(&mut self, fact: Fact) -> usize {
        self.0.push(fact);
        self.0.len() - 1
    }

    pub(crate) fn number(event: &Event) -> usize {
        event.id.as_u128() as usize
    }

    pub(crate) fn get(&self, number: usize) -> &Fact {
        &self.0[number]
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> &mut Fact {
        &mut self.0[number]
    }

    pub(crate) fn of(&self, event: &Event) -> &Fact {
        self.get(Self::number(event))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl std::fmt::Display for Fact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{}", self.position)?;
        match self.key {
            Some(key) => write!(f, "(k{key} v{})", self.version),
            None => Ok(()),
        }
    }
}

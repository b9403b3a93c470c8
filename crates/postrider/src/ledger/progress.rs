//! The one row that says how far a subscription has come.

use std::fmt;
use std::num::ParseIntError;

use uuid::Uuid;

use super::Intervals;
use crate::Position;

/// A subscription's progress as its row holds it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// Positions that are settled: delivered, parked, filtered out or proven never to exist.
    pub done: Intervals,
    /// The highest event seen. If it is gone or has another id, the database's history changed.
    pub highest: Option<Mark>,
    /// Events that were about to be published one small batch at a time when the relay died, if it did.
    pub trial: Option<Trial>,
}

/// An event by position and id: together they tell one history of a database from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Where it stands.
    pub position: Position,
    /// Which it is.
    pub id: Uuid,
}

/// A batch written down before it was tried, so that an event that kills the process is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The events of the batch.
    pub positions: Vec<Position>,
    /// How often a relay died with exactly this batch on trial.
    pub deaths: u32,
}

impl Trial {
    /// The batch whose positions print as `positions`.
    ///
    /// # Errors
    /// The text is not what [`Trial`] prints.
    pub fn from_words(positions: &str, deaths: u32) -> Result<Self, ParseIntError> {
        let numbers = positions.split_ascii_whitespace().map(|word| word.parse().map(Position::new));
        Ok(Self { positions: numbers.collect::<Result<_, _>>()?, deaths })
    }
}

impl fmt::Display for Trial {
    /// The positions, `41 42`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, position) in self.positions.iter().enumerate() {
            let space = if place == 0 { "" } else { " " };
            write!(f, "{space}{position}")?;
        }
        Ok(())
    }
}

//! The row that records how far a subscription is.

use std::fmt;
use std::num::ParseIntError;

use uuid::Uuid;

use super::Intervals;
use crate::Position;

/// A subscription's progress, as its row stores it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// Positions that are settled: delivered, parked, filtered out or proven never to exist.
    pub done: Intervals,
    /// The highest event seen. If it is gone or has another id, the database's history changed.
    pub highest: Option<LastSeen>,
    /// The batch that was about to be published on trial, if any. If the relay died with it, one of its events may be
    /// the cause.
    pub trial: Option<Trial>,
}

/// An event by position and id. If the position holds another id, the history of the database changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastSeen {
    /// Its position.
    pub position: Position,
    /// Its id.
    pub id: Uuid,
}

/// A batch that was recorded before it was published, so that an event that crashes the process is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The events of the batch.
    pub positions: Vec<Position>,
    /// How many times a relay died with exactly this batch on trial.
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
        for (index, position) in self.positions.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{position}")?;
        }
        Ok(())
    }
}

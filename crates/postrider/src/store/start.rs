//! Where a new subscription begins.

use crate::{Position, Timestamp};

/// Where a new subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Start {
    /// With the first event that exists. The default, so that no committed event is skipped by accident.
    #[default]
    Beginning,
    /// With the events that are committed from now on. Earlier events are skipped.
    Now,
    /// With the event at this position.
    Position(Position),
    /// With the first event that happened at or after this time.
    Time(Timestamp),
}

/// The format of the configuration: `beginning`, `now`, `position:7`, `time:2026-01-01T00:00:00.000000Z`.
impl std::fmt::Display for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Beginning => f.write_str("beginning"),
            Self::Now => f.write_str("now"),
            Self::Position(position) => write!(f, "position:{position}"),
            Self::Time(time) => write!(f, "time:{time}"),
        }
    }
}

//! The position of an event in its outbox.

use std::fmt;

/// The position of an event in its outbox: assigned by the database at the INSERT, increasing, never reused. The first
/// is 1; [`Position::ZERO`] is before all events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(i64);

impl Position {
    /// Before the first event.
    pub const ZERO: Self = Self(0);

    /// The position with this number.
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The highest possible position. A database that has assigned it cannot assign another.
    pub const LAST: Self = Self(i64::MAX);

    /// The next position; that of [`LAST`](Self::LAST) is `LAST`.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The next position, if there is one.
    #[must_use]
    pub const fn checked_next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The previous position.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

//! A set of positions as a floor and the ranges above it.

use std::fmt;
use std::str::FromStr;

use super::range_map::{RangeSet, parse_range};
use crate::Position;

/// Which positions are done: all up to the floor, and some ranges above it.
///
/// Events of different keys complete out of order, so there are ranges above the floor; when the gap below a range
/// closes, the floor rises over it. Inserting in order only raises the floor.
///
/// Prints as `40 43-50 52`: done up to 40, then 43 to 50, then 52.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Intervals {
    floor: Position,
    /// All above `floor + 1`.
    ranges: RangeSet,
}

impl Intervals {
    /// Everything up to `floor`, nothing above.
    pub fn up_to(floor: Position) -> Self {
        Self { floor, ranges: RangeSet::default() }
    }

    /// All positions up to this one are in the set.
    pub fn floor(&self) -> Position {
        self.floor
    }

    /// The ranges above the floor, ascending, both ends included.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = (Position, Position)> + '_ {
        self.ranges.ranges()
    }

    /// The number of ranges above the floor.
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// The highest position in the set.
    pub fn highest(&self) -> Position {
        self.ranges.highest().unwrap_or(self.floor)
    }

    /// Whether the position is in the set.
    pub fn contains(&self, position: Position) -> bool {
        position <= self.floor || self.ranges.contains(position)
    }

    /// Adds one position.
    pub fn insert(&mut self, position: Position) {
        self.insert_range(position, position);
    }

    /// Adds all positions from `start` to `end`, both included. An empty range adds nothing.
    pub fn insert_range(&mut self, start: Position, end: Position) {
        if end <= self.floor || start > end {
            return;
        }
        if start > self.floor.next() {
            self.ranges.insert(start, end);
            return;
        }
        self.floor = end;
        // The floor rises over every range that it now touches.
        while let Some(end) = self.ranges.pop_first_up_to(self.floor.next()) {
            self.floor = self.floor.max(end);
        }
    }

    /// The ranges of positions above the floor, up to `up_to`, that are not in the set: ascending, both ends included.
    pub fn gaps(&self, up_to: Position) -> Vec<(Position, Position)> {
        let mut gaps = Vec::new();
        // The highest possible position has no next one.
        let within = |next: Position| next.checked_next().filter(|next| *next <= up_to);
        let mut next = within(self.floor);
        for (start, end) in self.ranges() {
            let Some(first) = next else { return gaps };
            gaps.push((first, start.previous().min(up_to)));
            next = within(end);
        }
        gaps.extend(next.map(|first| (first, up_to)));
        gaps
    }
}

impl fmt::Display for Intervals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.ranges.len() == 0 { "" } else { " " };
        write!(f, "{}{space}{}", self.floor, self.ranges)
    }
}

/// A text that is not an interval set as [`Intervals`] prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseIntervalsError(String);

impl fmt::Display for ParseIntervalsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an interval set: {:?}", self.0)
    }
}

impl std::error::Error for ParseIntervalsError {}

impl FromStr for Intervals {
    type Err = ParseIntervalsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseIntervalsError(text.chars().take(80).collect());
        let mut parts = text.split(' ');
        let floor = parts.next().and_then(|floor| floor.parse().ok()).ok_or_else(wrong)?;
        let mut set = Self::up_to(Position::new(floor));
        for part in parts {
            let (start, end) =
                parse_range(part).filter(|(start, _)| *start > set.highest()).ok_or_else(wrong)?;
            set.insert_range(start, end);
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn set(text: &str) -> Intervals {
        text.parse().unwrap()
    }

    fn with(text: &str, start: i64, end: i64) -> String {
        let mut set = set(text);
        set.insert_range(Position::new(start), Position::new(end));
        set.to_string()
    }

    #[test]
    fn inserting_in_order_only_moves_the_floor() {
        assert_eq!(with("4", 5, 5), "5");
        assert_eq!(with("4", 5, 9), "9");
    }

    #[test]
    fn a_closed_gap_is_swallowed_by_the_floor() {
        assert_eq!(with("4 6-8 10", 5, 5), "8 10");
        assert_eq!(with("4 6-8 10", 3, 9), "10");
    }

    #[test]
    fn touching_and_overlapping_ranges_become_one() {
        assert_eq!(with("0 5-6 9", 7, 8), "0 5-9");
        assert_eq!(with("0 5-6 9", 4, 20), "0 4-20");
        assert_eq!(with("0 5-9", 6, 7), "0 5-9");
        assert_eq!(with("0 5-9", 10, 10), "0 5-10");
        assert_eq!(with("0 5-9", 3, 3), "0 3 5-9");
    }

    #[test]
    fn gaps_are_the_missing_positions_up_to_a_limit() {
        let gaps = |text: &str, up_to| {
            let ranges = set(text).gaps(Position::new(up_to));
            ranges.iter().map(|(a, b)| (a.get(), b.get())).collect::<Vec<_>>()
        };
        assert_eq!(gaps("4 6-8 10", 12), [(5, 5), (9, 9), (11, 12)]);
        assert_eq!(gaps("4 6-8 10", 9), [(5, 5), (9, 9)]);
        assert_eq!(gaps("4", 4), []);
        assert_eq!(gaps("4 9", 6), [(5, 6)]);
    }

    #[test]
    fn the_highest_possible_position_is_handled_like_any_other() {
        const LAST: i64 = i64::MAX;
        let gaps = |text: &str| {
            let ranges = set(text).gaps(Position::LAST);
            ranges.iter().map(|(a, b)| (a.get(), b.get())).collect::<Vec<_>>()
        };
        assert_eq!(with("4", LAST, LAST), format!("4 {LAST}"));
        assert_eq!(with(&format!("4 {LAST}"), LAST, LAST), format!("4 {LAST}"));
        assert_eq!(with(&format!("4 {LAST}"), 9, LAST - 1), format!("4 9-{LAST}"));
        assert_eq!(with(&format!("4 {LAST}"), 5, LAST - 1), format!("{LAST}"));
        assert_eq!(with(&format!("{LAST}"), 5, LAST), format!("{LAST}"));
        assert_eq!(gaps(&format!("4 {LAST}")), [(5, LAST - 1)]);
        assert_eq!(gaps(&format!("{LAST}")), []);
        assert_eq!(gaps(&format!("4 6-{LAST}")), [(5, 5)]);
        assert!(set(&format!("{LAST}")).contains(Position::LAST));
    }

    #[test]
    fn damaged_text_is_refused() {
        for text in ["", "x", "4 3", "4 9-7", "4 6-8 7", "4  6", "4 6-"] {
            assert!(text.parse::<Intervals>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn it_behaves_like_a_plain_set_of_positions() {
        let mut seed = 7_u64;
        for _ in 0..200 {
            let mut plain = BTreeSet::new();
            let mut set = Intervals::default();
            for _ in 0..60 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let start = (seed >> 33) as i64 % 50 + 1;
                let end = start + (seed >> 20) as i64 % 4;
                plain.extend(start..=end);
                set.insert_range(Position::new(start), Position::new(end));
                for p in 1..60 {
                    assert_eq!(set.contains(Position::new(p)), plain.contains(&p), "{set} at {p}");
                }
                assert_eq!(set.to_string().parse(), Ok(set.clone()));
                assert!(set.ranges().next().is_none_or(|(s, _)| s > set.floor().next()));
            }
        }
    }
}

//! Disjoint ranges of positions. A writer that commits late, or an event that fails, leaves a gap, so every set of
//! positions in Postrider is a few ranges instead of one entry per position.

use std::collections::BTreeMap;
use std::fmt;

use crate::Position;

/// Disjoint ranges of positions, both ends included, with a value each. Ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeMap<V> {
    /// The first position of a range, to its last position and its value.
    ranges: BTreeMap<Position, (Position, V)>,
}

/// A set of positions. Ranges that touch are one.
pub(crate) type RangeSet = RangeMap<()>;

impl<V> Default for RangeMap<V> {
    fn default() -> Self {
        Self { ranges: BTreeMap::new() }
    }
}

impl<V> RangeMap<V> {
    /// The number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The ranges, both ends included.
    pub(crate) fn ranges(&self) -> impl DoubleEndedIterator<Item = (Position, Position)> + '_ {
        self.ranges.iter().map(|(first, (last, _))| (*first, *last))
    }

    /// The highest position.
    pub(crate) fn highest(&self) -> Option<Position> {
        self.ranges.last_key_value().map(|(_, (last, _))| *last)
    }

    /// The range that contains the position, and its value.
    pub(crate) fn get(&self, position: Position) -> Option<(Position, Position, &V)> {
        let (first, (last, value)) = self.ranges.range(..=position).next_back()?;
        (position <= *last).then_some((*first, *last, value))
    }
}

/// What holes need: ranges with values. A set merges its ranges, so it never needs these.
#[cfg(feature = "_server")]
impl<V> RangeMap<V> {
    /// The ranges with their values.
    #[cfg(any(test, feature = "mysql"))]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Position, Position, &V)> {
        self.ranges.iter().map(|(first, (last, value))| (*first, *last, value))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.ranges.values().map(|(_, value)| value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.ranges.values_mut().map(|(_, value)| value)
    }

    /// The value of the range that contains the position.
    pub(crate) fn get_mut(&mut self, position: Position) -> Option<&mut V> {
        let (_, (last, value)) = self.ranges.range_mut(..=position).next_back()?;
        (position <= *last).then_some(value)
    }

    /// Adds a range that overlaps no other. It is not merged with a range that it touches.
    pub(crate) fn insert_disjoint(&mut self, first: Position, last: Position, value: V) {
        self.ranges.insert(first, (last, value));
    }

    /// Keeps the ranges for which `keep` returns true.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Position, Position, &V) -> bool) {
        self.ranges.retain(|first, (last, value)| keep(*first, *last, value));
    }
}

impl<V: Copy> RangeMap<V> {
    /// Removes one position, which may split its range. Returns whether it was in a range.
    #[cfg_attr(
        not(feature = "_server"),
        allow(dead_code, reason = "SQLite has no position that is filled later")
    )]
    pub(crate) fn remove(&mut self, position: Position) -> bool {
        let Some((first, last, value)) = self.get(position).map(|(first, last, value)| (first, last, *value))
        else {
            return false;
        };
        self.ranges.remove(&first);
        if first < position {
            self.ranges.insert(first, (position.previous(), value));
        }
        if position < last {
            self.ranges.insert(position.next(), (last, value));
        }
        true
    }
}

impl RangeSet {
    pub(crate) fn contains(&self, position: Position) -> bool {
        self.get(position).is_some()
    }

    /// Adds all positions from `first` to `last`. Returns whether that added one.
    pub(crate) fn insert(&mut self, first: Position, last: Position) -> bool {
        if first > last {
            return false;
        }
        let (mut first, mut last) = (first, last);
        // Absorbs the range to the left that it touches or overlaps, and all such ranges to the right.
        if let Some((start, (end, ()))) = self.ranges.range(..=first).next_back()
            && end.next() >= first
        {
            if *end >= last {
                return false;
            }
            first = *start;
        }
        while let Some((start, (end, ()))) = self.ranges.range(first..=last.next()).next() {
            let start = *start;
            last = last.max(*end);
            self.ranges.remove(&start);
        }
        self.ranges.insert(first, (last, ()));
        true
    }

    /// Removes the lowest range if it begins at or below `position`. Returns its last position.
    pub(crate) fn pop_first_up_to(&mut self, position: Position) -> Option<Position> {
        let first = self.ranges.first_entry().filter(|first| *first.key() <= position)?;
        Some(first.remove().0)
    }

    /// Removes the lowest range that begins above `position`. Returns whether there was one.
    #[cfg(feature = "mysql")]
    pub(crate) fn remove_first_above(&mut self, position: Position) -> bool {
        let first = self.ranges.range(position.next()..).next().map(|(first, _)| *first);
        first.is_some_and(|first| self.ranges.remove(&first).is_some())
    }
}

/// Prints as `43-50 52`.
impl fmt::Display for RangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges().enumerate() {
            let space = if index == 0 { "" } else { " " };
            match first == last {
                true => write!(f, "{space}{first}")?,
                false => write!(f, "{space}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// One range as it is printed: `43-50` or `52`. `None` for any other text.
pub(crate) fn parse_range(text: &str) -> Option<(Position, Position)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((Position::new(first), Position::new(last)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn set(text: &str) -> RangeSet {
        let mut set = RangeSet::default();
        text.split(' ').filter_map(parse_range).for_each(|(first, last)| _ = set.insert(first, last));
        set
    }

    #[test]
    fn touching_and_overlapping_ranges_become_one() {
        assert_eq!(set("5-6 9 7-8").to_string(), "5-9");
        assert_eq!(set("5-6 9 4-20").to_string(), "4-20");
        assert_eq!(set("5-9 3").to_string(), "3 5-9");
        assert_eq!(set("5-9 10").to_string(), "5-10");
        assert_eq!(set("9223372036854775807 7-9223372036854775806").to_string(), "7-9223372036854775807");
    }

    #[test]
    fn an_insert_reports_whether_it_added_a_position() {
        let mut set = set("5-9");
        assert!(!set.insert(Position::new(6), Position::new(9)));
        assert!(!set.insert(Position::new(4), Position::new(3)));
        assert!(set.insert(Position::new(6), Position::new(10)));
    }

    #[cfg(feature = "_server")]
    #[test]
    fn ranges_with_values_are_split_and_not_merged() {
        let mut map = RangeMap::default();
        map.insert_disjoint(Position::new(3), Position::new(6), 'a');
        map.insert_disjoint(Position::new(7), Position::new(7), 'b');
        assert!(map.remove(Position::new(5)) && !map.remove(Position::new(5)));
        let ranges: Vec<_> =
            map.iter().map(|(first, last, value)| (first.get(), last.get(), *value)).collect();
        assert_eq!(ranges, [(3, 4, 'a'), (6, 6, 'a'), (7, 7, 'b')]);
        assert_eq!(map.get_mut(Position::new(5)), None);
        assert_eq!(map.get_mut(Position::new(6)), Some(&mut 'a'));
    }

    #[test]
    fn it_behaves_like_a_plain_set_of_positions() {
        let mut seed = 11_u64;
        for _ in 0..200 {
            let (mut plain, mut set) = (BTreeSet::new(), RangeSet::default());
            for _ in 0..60 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let first = (seed >> 33) as i64 % 50 + 1;
                if seed >> 63 == 0 {
                    let last = first + (seed >> 20) as i64 % 4;
                    let before = plain.len();
                    plain.extend(first..=last);
                    assert_eq!(set.insert(Position::new(first), Position::new(last)), plain.len() > before);
                } else {
                    assert_eq!(set.remove(Position::new(first)), plain.remove(&first));
                }
                for position in 1..60 {
                    assert_eq!(set.contains(Position::new(position)), plain.contains(&position), "{set}");
                }
                assert!(
                    set.ranges().zip(set.ranges().skip(1)).all(|((_, last), (first, _))| last.next() < first)
                );
            }
        }
    }
}

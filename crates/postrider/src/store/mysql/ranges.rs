//! Positions in the text of a statement. Only numbers are ever inserted.

use std::fmt::Write as _;

use crate::Position;

/// Ranges up to this length are written as single positions, unless there are too many of these.
const SHORT_POSITIONS_MAX: i64 = 64;
const SINGLE_POSITIONS_MAX: usize = 20_000;

/// A condition for the positions of some ranges, both ends included, ascending. The server reads the ranges of the
/// primary key in order, and no further than a LIMIT needs.
///
/// It also evaluates the condition for every row it reads, so the condition is written for speed: the tail first, which
/// has most rows; single positions in one IN, which is a binary search; long ranges last. Ten thousand holes with one
/// OR each take a minute per query.
pub(super) fn within(ranges: impl Iterator<Item = (i64, i64)>) -> String {
    let (mut tail, mut single, mut long) = (String::new(), String::new(), String::new());
    let (mut lowest, mut singles) = (None, 0);
    for (first, last) in ranges {
        lowest.get_or_insert(first);
        // Writing to a String cannot fail.
        if last == i64::MAX {
            _ = write!(tail, "position >= {first} OR ");
        } else if last - first < SHORT_POSITIONS_MAX && singles < SINGLE_POSITIONS_MAX {
            for position in first..=last {
                _ = write!(single, ",{position}");
                singles += 1;
            }
        } else {
            _ = write!(long, " OR position BETWEEN {first} AND {last}");
        }
    }
    match lowest {
        // If there are too many ranges for the optimizer, it scans from the lowest one, not from the beginning.
        Some(lowest) => format!("position >= {lowest} AND ({tail}position IN (0{single}){long})"),
        None => "FALSE".to_owned(),
    }
}

/// A comma-separated list of positions. It starts with 0, which is no position, so that it is never empty.
pub(super) fn listed(positions: impl IntoIterator<Item = Position>) -> String {
    let mut list = String::from("0");
    for position in positions {
        _ = write!(list, ",{position}");
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_one_condition() {
        assert_eq!(
            within([(3, 3), (5, 6), (100, 300), (512, i64::MAX)].into_iter()),
            "position >= 3 AND (position >= 512 OR position IN (0,3,5,6) OR position BETWEEN 100 AND 300)"
        );
        assert_eq!(within(std::iter::empty()), "FALSE");
        assert_eq!(listed([Position::new(4), Position::new(7)]), "0,4,7");
    }
}

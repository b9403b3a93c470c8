//! Positions as they stand in a statement. Only numbers are ever written into one.

use std::fmt::Write as _;

use crate::Position;

/// Ranges up to this long are written as single positions, as long as there are not too many of these.
const SHORT_POSITIONS_MAX: i64 = 64;
const SINGLE_POSITIONS_MAX: usize = 20_000;

/// A condition that holds for the positions of some ranges, both ends included, ascending. The server turns it
/// into ranges of the primary key, read in order and no further than a LIMIT needs.
///
/// It also asks the condition of every row it reads, so it is written to be answered fast: the tail first, where most rows
/// are; single positions in one IN, which is searched and not gone through; long ranges last. Ten thousand holes
/// as one OR each cost a minute a look.
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
        // A server that finds the ranges too many reads on from the lowest, not from the beginning.
        Some(lowest) => format!("position >= {lowest} AND ({tail}position IN (0{single}){long})"),
        None => "FALSE".to_owned(),
    }
}

/// Positions between commas; none is a position that does not exist.
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

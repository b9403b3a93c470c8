//! Positions as they stand in a statement. Only numbers are ever written into one.

use std::fmt::Write as _;

use crate::Position;

/// A condition that holds for the positions of some ranges, both ends included, ascending. The server turns it
/// into one range of the primary key per range here, read in order and no further than a LIMIT needs.
pub(super) fn within(ranges: impl Iterator<Item = (i64, i64)>) -> String {
    let mut condition = String::new();
    let mut lowest = None;
    for (first, last) in ranges {
        lowest.get_or_insert(first);
        let or = if condition.is_empty() { "" } else { " OR " };
        // Writing to a String cannot fail.
        _ = match last {
            i64::MAX => write!(condition, "{or}position >= {first}"),
            last if first == last => write!(condition, "{or}position = {first}"),
            last => write!(condition, "{or}position BETWEEN {first} AND {last}"),
        };
    }
    match lowest {
        // A server that finds the ranges too many reads on from the lowest, not from the beginning.
        Some(lowest) => format!("position >= {lowest} AND ({condition})"),
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
            within([(3, 3), (5, 9), (12, i64::MAX)].into_iter()),
            "position >= 3 AND (position = 3 OR position BETWEEN 5 AND 9 OR position >= 12)"
        );
        assert_eq!(within(std::iter::empty()), "FALSE");
        assert_eq!(listed([Position::new(4), Position::new(7)]), "0,4,7");
    }
}

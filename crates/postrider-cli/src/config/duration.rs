//! Durations in the configuration: `250ms`, `5s`, `2m`, `1h`, `7d`.

use std::time::Duration;

/// Units with their milliseconds, largest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A whole number directly followed by its unit. `None` for anything else.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, millis) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(millis).map(Duration::from_millis)
}

/// In the largest unit that needs no fraction. [`parse`] reads it back to the same duration.
pub(super) fn show(duration: Duration) -> String {
    postrider::duration_text(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parsed_value_is_shown_in_its_largest_unit() {
        for (text, shown) in [("250ms", "250ms"), ("60s", "1m"), ("90s", "90s"), ("0s", "0ms"), ("48h", "2d")]
        {
            assert_eq!(parse(text).map(show).as_deref(), Some(shown), "{text}");
        }
    }

    #[test]
    fn anything_else_is_not_a_duration() {
        for text in
            ["", "5", "s", "5 s", "-5s", "1.5s", "5S", "5sec", "99999999999999999999s", "999999999999999999d"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}

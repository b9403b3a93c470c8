//! Numbers as text: durations and counts.

use std::time::Duration;

/// At most two units: `3d 4h`, `2m 10s`, `5s`, `80ms`.
pub fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3_600 => pair(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => pair(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

fn pair(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit} {small}{small_unit}"),
    }
}

/// `1 event`, `2 events`.
pub fn count(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_two_units_at_most() {
        for (millis, shown) in [
            (0, "0ms"),
            (80, "80ms"),
            (5_900, "5s"),
            (60_000, "1m"),
            (130_000, "2m 10s"),
            (7_260_000, "2h 1m"),
            (273_600_000, "3d 4h"),
        ] {
            assert_eq!(age(Duration::from_millis(millis)), shown);
        }
    }

    #[test]
    fn a_count_of_one_has_a_singular_noun() {
        assert_eq!([0, 1, 2].map(|n| count(n, "event")), ["0 events", "1 event", "2 events"]);
    }
}

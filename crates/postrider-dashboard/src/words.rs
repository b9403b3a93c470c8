//! Times and numbers as people read them.

use std::time::Duration;

use postrider::Timestamp;
use postrider::operate::ParkedCount;

/// At most two units: `3 d 4 h`, `2 min 10 s`, `5 s`.
pub(crate) fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let pair = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {small_unit}"),
    };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => pair(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => pair(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// `1,234,567`
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1,234`, or `at least 100,000`.
pub(crate) fn bounded(events: u64, at_least: bool) -> String {
    if at_least { format!("at least {}", grouped(events)) } else { grouped(events) }
}

/// The same for a count of operations.
pub(crate) fn counted(count: ParkedCount) -> String {
    bounded(count.events, count.at_least)
}

/// A rate per second.
pub(crate) fn per_second(rate: f64) -> String {
    match rate {
        rate if rate >= 100.0 => format!("{}/s", grouped(rate.round().max(0.0) as u64)),
        rate => format!("{rate:.1}/s"),
    }
}

/// A size in bytes.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        0..1_024 => format!("{bytes} bytes"),
        1_024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1_024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// A time with its distance from now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct When {
    /// RFC 3339.
    pub(crate) iso: String,
    /// `5 min ago`, `in 40 s`.
    pub(crate) text: String,
}

impl When {
    pub(crate) fn new(at: Timestamp, now: Timestamp) -> Self {
        let text = match at > now {
            true => format!("in {}", age(now.until(at))),
            false => format!("{} ago", age(at.until(now))),
        };
        Self { iso: at.to_string(), text }
    }

    pub(crate) fn of(at: Option<Timestamp>, now: Timestamp) -> Option<Self> {
        at.map(|at| Self::new(at, now))
    }

    /// To the second, in UTC: `2026-11-19 21:30:05`.
    pub(crate) fn clock(&self) -> String {
        self.iso.get(..19).unwrap_or(&self.iso).replace('T', " ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators_and_ages_two_units() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(bounded(100_000, true), "at least 100,000");
        let ages = [0, 59, 60, 130, 3_600, 90_000].map(|s| age(Duration::from_secs(s)));
        assert_eq!(ages, ["0 s", "59 s", "1 min", "2 min 10 s", "1 h", "1 d 1 h"]);
    }

    #[test]
    fn a_time_is_in_the_past_or_in_the_future() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        assert_eq!(When::new(at(10), at(70)).text, "1 min ago");
        assert_eq!(When::new(at(70), at(30)).text, "in 40 s");
        assert_eq!(When::new(at(0), at(30)).clock(), "1970-01-01 00:00:00");
    }
}

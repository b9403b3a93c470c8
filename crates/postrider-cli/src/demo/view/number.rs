//! Numbers as text.

use std::time::Duration;

/// `1,234,567`
pub(super) fn count(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1,234/s`
pub(super) fn rate(per_s: f64) -> String {
    format!("{}/s", count(per_s.round().max(0.0) as u64))
}

/// `8 ms`, `2.4 s`, `61 s`
pub(super) fn age(age: Duration) -> String {
    match age.as_millis() {
        ms @ 0..1_000 => format!("{ms} ms"),
        1_000..10_000 => format!("{:.1} s", age.as_secs_f64()),
        ms => format!("{} s", ms / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!([0_u64, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(rate(1_233.6), "1,234/s");
        let ages = [8, 999, 2_440, 61_900].map(|ms| age(Duration::from_millis(ms)));
        assert_eq!(ages, ["8 ms", "999 ms", "2.4 s", "61 s"]);
    }
}

//! Counts as text.

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
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|n| count(n, "event")), ["0 events", "1 event", "2 events"]);
    }
}

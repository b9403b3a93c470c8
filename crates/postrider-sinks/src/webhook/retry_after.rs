//! The header `retry-after`.

use std::time::Duration;

use jiff::fmt::rfc2822::DateTimeParser;
use postrider::Timestamp;

/// Longest wait that an endpoint can request.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// Reads the header: seconds, or a date. `None` if it is neither.
pub(super) fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    let wait = if value.bytes().all(|b| b.is_ascii_digit()) && !value.is_empty() {
        // A number that is too large for a u64 becomes the maximum.
        value.parse().map_or(RETRY_AFTER_MAX, Duration::from_secs)
    } else {
        let date = DateTimeParser::new().parse_timestamp(value).ok()?;
        now.until(Timestamp::from_micros(date.as_microsecond()))
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_read_and_capped() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = Timestamp::from_micros(784_111_777_000_000);
        for (value, seconds) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("3600", Some(3600)),
            ("3601", Some(3600)),
            ("99999999999999999999999", Some(3600)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("Mon, 07 Nov 1994 08:49:37 GMT", Some(3600)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
        ] {
            assert_eq!(retry_after(value, now), seconds.map(Duration::from_secs), "{value:?}");
        }
    }
}

use std::sync::Arc;

use postrider_testkit::CapturedLog;

use super::*;
use crate::store::Epoch;
use crate::{Event, Timestamp};

const NOW: Duration = Duration::ZERO;

fn seen(act: impl FnOnce(&mut Reports)) -> Vec<String> {
    CapturedLog::of(|_| act(&mut Reports::new("orders", "twin#00000001")))
}

fn details(reason: &str) -> Option<Box<FailureDetails>> {
    let event = Event::new("order.placed", "P4YL0AD").with_key("42").with_header("token", "S3CRET");
    Some(Box::new(FailureDetails {
        event: Some(Arc::new(event)),
        key: Some("42\nforged line".into()),
        destination: Some("https://me:pw@h.example/T0KEN?key=T0KEN + orders".into()),
        reason: reason.into(),
    }))
}

fn dead(position: i64, reason: &str) -> Report {
    let details = details(reason);
    Report::Parked { position: Position::new(position), state: ParkedState::Dead, attempts: 3, details }
}

#[test]
fn a_dead_event_is_logged_with_its_identity_and_reason_and_without_secrets() {
    let lines = seen(|reports| reports.log(&dead(7, "topic orders does not exist"), NOW));
    let [line] = &lines[..] else { panic!("{lines:?}") };
    for part in [
        "WARN",
        "event dead",
        "position=7",
        "type=\"order.placed\"",
        "key=\"42\\nforged line\"",
        "attempts=3",
        "reason=\"topic orders does not exist\"",
        "destination=\"https://h.example + orders\"",
        "id=\"",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    for secret in ["P4YL0AD", "S3CRET", "T0KEN", "pw@"] {
        assert!(!line.contains(secret), "{secret} is in {line}");
    }
}

#[test]
fn a_first_failure_a_damaged_row_and_an_unrouted_event_are_logged() {
    let lines = seen(|reports| {
        reports.log(&Report::Failing { position: Position::new(1), details: details("404").unwrap() }, NOW);
        let details = Some(Box::new(FailureDetails {
            reason: "its headers are no JSON".into(),
            ..FailureDetails::default()
        }));
        let state = ParkedState::Dead;
        reports.log(&Report::Parked { position: Position::new(2), state, attempts: 0, details }, NOW);
        let state = ParkedState::Unrouted;
        let details = self::details("no rule matches");
        reports.log(&Report::Parked { position: Position::new(3), state, attempts: 0, details }, NOW);
    });
    let expected = ["event failed; it will be retried", "headers are no JSON", "event unrouted"];
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (line, part) in lines.iter().zip(expected) {
        assert!(line.starts_with("WARN") && line.contains(part), "{line}");
    }
}

#[test]
fn thousands_of_dead_events_are_logged_as_a_few_lines_and_a_count() {
    let lines = seen(|reports| {
        reports.log_suppressed(Duration::from_secs(1));
        for position in 0..5_000 {
            reports.log(&dead(position, "no"), NOW);
        }
        reports.log_suppressed(Duration::from_secs(2));
        reports.log_suppressed(Duration::from_secs(11));
        reports.log(&dead(5_000, "no"), NOW);
        reports.log_suppressed(Duration::MAX);
    });
    assert_eq!(lines.len() as u64, GIVEN_UP_LINES_MAX + 2, "{lines:?}");
    let summary = &lines[lines.len() - 2];
    assert!(
        summary.contains("more events are dead, expired or unrouted") && summary.contains("events=4980"),
        "{summary}"
    );
}

#[test]
fn a_standby_with_the_name_of_the_leader_logs_a_warning() {
    for (holder, is_clash) in [("twin#00000002", true), ("other#00000002", false), ("relay-1", false)] {
        let lines = seen(|reports| reports.log(&Report::StandingBy { holder: holder.into() }, NOW));
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].contains("WARN") && lines[0].contains("same name"), is_clash, "{lines:?}");
        assert!(lines[0].contains(holder), "{lines:?}");
    }
}

#[test]
fn a_standby_behind_the_same_relay_logs_that_one_database_is_served_twice() {
    for (own, holder) in [
        ("twin#00000001/2", "twin#00000001"),
        ("twin#00000001", "twin#00000001/12"),
        ("relay-1/2", "relay-1/3"),
    ] {
        let standby = Report::StandingBy { holder: holder.into() };
        let lines = CapturedLog::of(|_| Reports::new("orders", own).log(&standby, NOW));
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("WARN") && lines[0].contains("serves the same database"), "{lines:?}");
        assert!(lines[0].contains(holder), "{lines:?}");
    }
}

#[test]
fn events_that_are_retried_automatically_are_not_logged() {
    let lines = seen(|reports| {
        for state in [ParkedState::Retry, ParkedState::Behind, ParkedState::Held] {
            reports
                .log(&Report::Parked { position: Position::new(1), state, attempts: 1, details: None }, NOW);
        }
    });
    assert!(lines.is_empty(), "{lines:?}");
}

#[test]
fn a_text_is_cut_between_characters() {
    assert_eq!(truncated(&"é".repeat(1_000)).chars().count(), TEXT_CHARS_MAX + 1);
    assert_eq!(display_destination("orders"), "orders");
}

/// A takeover has its reason, and the end of an outage its duration.
#[test]
fn a_takeover_is_logged_with_its_reason_and_an_outage_with_its_duration() {
    let leading = |previous: Option<&str>, clean| {
        let expires_at = Timestamp::from_micros(1_000_000);
        let lease = |holder: &str| Box::new(LeaseOverview { holder: holder.to_owned(), expires_at });
        let report = Report::Leading { epoch: Epoch(7), clean, previous: previous.map(lease) };
        seen(|reports| reports.log(&report, NOW)).join("")
    };
    let crashed = leading(Some("relay-2"), false);
    let reason = "relay-2 did not release its lease, which was valid until 1970-01-01T00:00:01";
    assert!(crashed.contains(reason), "{crashed}");
    assert!(leading(None, true).contains("the last one released it cleanly"), "{}", leading(None, true));
    assert!(leading(None, false).contains("did not settle everything"), "{}", leading(None, false));
    let lines = seen(|reports| {
        let opened = Report::BreakerOpened { destination: "mail".into(), error: "connection refused".into() };
        reports.log(&opened, Duration::from_secs(10));
        reports.log(&Report::BreakerClosed { destination: "mail".into() }, Duration::from_secs(75));
    });
    assert!(lines[0].contains("connection refused") && lines[1].contains("seconds=65"), "{lines:?}");
}

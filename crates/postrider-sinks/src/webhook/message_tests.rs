use std::sync::Arc;

use postrider::encode::{CloudEvents, CloudEventsBinary, Encoder, Plain};
use postrider::{Event, Position};

use super::*;

fn request(
    encoder: impl Encoder,
    event: Event,
    common: &[(&'static str, &str)],
) -> Result<HeaderMap, String> {
    let encoder: Arc<dyn Encoder> = Arc::new(encoder);
    let message = Message::encode(&encoder, Position::new(1), Arc::new(event), "d".into()).unwrap();
    let common = common.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
    headers(&message, &common.collect(), &[], 17)
}

#[track_caller]
fn assert_header(headers: &HeaderMap, name: &str, value: &str) {
    assert_eq!(headers.get(name).map(HeaderValue::as_bytes), Some(value.as_bytes()), "{name}");
}

#[test]
fn a_value_of_any_script_is_percent_encoded_without_loss() {
    let event = Event::new("a", "")
        .with_header("plain", "a b; c=\"d\"")
        .with_header("script", "Grüße")
        .with_header("percent", "100%25")
        .with_header("spaces", " a ")
        .with_header("X-Upper", "1");
    let headers = request(Plain, event, &[]).unwrap();
    for (name, value) in [
        ("plain", "a b; c=\"d\""),
        ("script", "Gr%C3%BC%C3%9Fe"),
        ("percent", "100%2525"),
        ("spaces", "%20a%20"),
        ("x-upper", "1"),
    ] {
        assert_header(&headers, name, value);
    }
}

#[test]
fn a_header_of_the_event_cannot_replace_one_of_the_sink() {
    let event = Event::new("a", "")
        .with_header("Host", "inside")
        .with_header("content-length", "0")
        .with_header("webhook-signature", "v1,forged")
        .with_header("webhook-id", "other")
        .with_header("Authorization", "forged")
        .with_header("Content-Type", "text/csv");
    let id = event.id.to_string();
    let headers = request(Plain, event, &[("authorization", "ours")]).unwrap();
    for (name, value) in [
        ("postrider-header-host", "inside"),
        ("postrider-header-content-length", "0"),
        ("postrider-header-webhook-signature", "v1,forged"),
        ("postrider-header-authorization", "forged"),
        ("authorization", "ours"),
        ("content-type", "text/csv"),
        ("webhook-id", &id),
        ("webhook-timestamp", "17"),
    ] {
        assert_header(&headers, name, value);
    }
    assert_eq!(headers.get_all("authorization").iter().count(), 1);
    assert!(!headers.contains_key("host") && !headers.contains_key("webhook-signature"));
}

#[test]
fn an_event_cannot_set_headers_that_servers_act_on() {
    let names = [
        "Authorization",
        "cookie",
        "set-cookie",
        "proxy-authorization",
        "transfer-encoding",
        "x-forwarded-for",
        "Forwarded",
        "x-http-method-override",
        "x-original-url",
        "webhook_signature",
        "content_length",
        "x_forwarded_for",
        "postrider_id",
    ];
    let event = names.iter().fold(Event::new("a", ""), |event, name| event.with_header(*name, "forged"));
    let headers = request(Plain, event, &[]).unwrap();
    for name in names {
        assert!(headers.get(name).is_none_or(|value| value != "forged"), "{name}");
        assert_header(&headers, &format!("postrider-header-{name}"), "forged");
    }
}

#[test]
fn a_header_of_postrider_cannot_be_forged_with_plain_sql() {
    let forged =
        || Event::new("a", "").with_header("postrider-id", "forged").with_header("Postrider-Type", "forged");
    let event = forged();
    let id = event.id.to_string();
    let plain = request(Plain, event, &[]).unwrap();
    assert_header(&plain, "postrider-id", &id);
    assert_header(&plain, "postrider-type", "a");
    assert_header(&plain, "postrider-header-postrider-id", "forged");
    let structured = request(CloudEvents::default(), forged(), &[]).unwrap();
    assert!(!structured.contains_key("postrider-id") && !structured.contains_key("postrider-type"));
    let binary = Event::new("a", "").with_header("CE-type", "forged").with_header("ce-source", "forged");
    let binary = request(CloudEventsBinary::default(), binary, &[]).unwrap();
    assert_header(&binary, "ce-type", "a");
}

#[test]
fn an_empty_body_has_a_length() {
    let headers = request(Plain, Event::new("a", ""), &[]).unwrap();
    assert_header(&headers, "content-length", "0");
    assert!(!request(Plain, Event::new("a", "{}"), &[]).unwrap().contains_key("content-length"));
}

#[test]
fn header_names_that_only_other_writers_can_store_are_sent_or_refused() {
    let headers = request(Plain, Event::new("a", "").with_header("my header\r\n", "1"), &[]).unwrap();
    assert_header(&headers, "my%20header%0d%0a", "1");
    let twice = Event::new("a", "").with_header("Name", "1").with_header("name", "2");
    assert!(request(Plain, twice, &[]).unwrap_err().contains("header names are case-insensitive"));
    assert!(request(Plain, Event::new("a", "").with_header("", "1"), &[]).is_err());
    let broken = Event::new("a", "").with_header("content-type", "text/\nplain");
    assert!(request(Plain, broken, &[]).unwrap_err().contains("media type"));
}

#[test]
fn a_line_break_in_a_value_does_not_start_another_header() {
    let event =
        Event::new("a", "").with_header("x", "1\r\nx-forged: 2").with_header("ce-x", "1\r\nx-forged: 2");
    let headers = request(Plain, event, &[]).unwrap();
    assert_header(&headers, "x", "1%0D%0Ax-forged: 2");
    assert!(!headers.contains_key("x-forged"));
}

#[test]
fn cloudevents_follow_the_rules_of_their_http_binding() {
    let event = || Event::new("order.placed", "{}").with_namespace("a b").with_aggregate("Ordé", "4 2");
    let binary = request(CloudEventsBinary::default(), event(), &[]).unwrap();
    for (name, value) in [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-type", "order.placed"),
        ("ce-source", "/a%2520b"),
        ("ce-subject", "Ord%C3%A9/4%202"),
    ] {
        assert_header(&binary, name, value);
    }
    let structured = request(CloudEvents::default(), event(), &[]).unwrap();
    assert_header(&structured, "content-type", "application/cloudevents+json");
    assert!(!structured.contains_key("ce-type"));
}

#[test]
fn a_trace_context_is_sent_unchanged() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let event = Event::new("a", "").with_header(TRACEPARENT, parent).with_header(TRACESTATE, "a=50%25 b,c=d");
    let headers = request(Plain, event, &[]).unwrap();
    assert_header(&headers, TRACEPARENT, parent);
    assert_header(&headers, TRACESTATE, "a=50%25 b,c=d");
}

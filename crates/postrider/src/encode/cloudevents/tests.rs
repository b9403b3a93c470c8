use serde_json::Value;

use super::super::{Encoder, Outgoing};
use super::*;
use crate::{ActionContext, Code, Event, Headers, Position, Timestamp};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn object(event: &Event) -> serde_json::Map<String, Value> {
    let encoded = CloudEvents::default().encode(&Outgoing::new(Position::new(17), event)).unwrap();
    assert_eq!(encoded.content_type, "application/cloudevents+json");
    match serde_json::from_slice(&encoded.body).unwrap() {
        Value::Object(object) => object,
        other => panic!("{other}"),
    }
}

fn headers(binding: Binding, event: &Event) -> Headers {
    CloudEventsBinary::default().binding(binding).headers(&Outgoing::new(Position::new(17), event))
}

/// Events with all fields, with none, and with values that only another writer can store.
fn events() -> Vec<Event> {
    let time = Timestamp::from_micros(1_763_242_500_123_456);
    let action = ActionContext {
        id: uuid::Uuid::nil(),
        name: "A".into(),
        params: "{}".into(),
        started: time,
        completed: time,
    };
    let full = Event::new("order.placed", r#"{"a":1.50}"#)
        .with_aggregate("Order", "42")
        .with_key("k")
        .with_topic("t")
        .with_namespace("shop.checkout")
        .with_producer("node-3")
        .with_action(action)
        .with_header("tenant", "blue")
        .with_header("X-Other", "1")
        .with_header("type", "not this one")
        .with_header("data", "nor this")
        .with_header("averyveryverylongname1", "too long")
        .with_header("empty", "")
        .with_header("traceparent", PARENT)
        .with_header("tracestate", "a=1");
    let foreign = Event::new("é %\"", vec![0xff, 0])
        .with_namespace("a b/é")
        .with_time(Timestamp::from_micros(i64::MAX));
    vec![full, Event::new("a", "null"), foreign, Event::new("a", "").with_header("traceparent", "bad")]
}

#[test]
fn a_structured_event_keeps_the_rules_of_the_specification() {
    for event in events() {
        let object = object(&event);
        for required in ["id", "source", "specversion", "type"] {
            assert!(object[required].as_str().is_some_and(|text| !text.is_empty()), "{required}");
        }
        assert_eq!(object["specversion"], "1.0");
        for (name, value) in &object {
            let legal = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            assert!(legal && name.len() <= 20 || name == "data_base64", "{name}");
            assert!(
                name == "data"
                    || value.as_str().is_some_and(|text| !text.is_empty())
                    || name == "data_base64"
            );
        }
        if let Some(time) = object.get("time") {
            assert_eq!(time.as_str().unwrap().parse(), Ok(event.time));
        }
        assert!(object["source"].as_str().unwrap().bytes().all(|b| b.is_ascii_graphic()));
        assert_ne!(object.contains_key("data"), object.contains_key("data_base64"));
    }
}

#[test]
fn both_modes_have_the_same_attributes() {
    for event in events() {
        let mut object = object(&event);
        for mode in ["data", "data_base64", "datacontenttype"] {
            object.remove(mode);
        }
        let headers = headers(Binding::Kafka, &event);
        let reported: serde_json::Map<String, Value> = headers
            .iter()
            .map(|(name, value)| (name.strip_prefix("ce_").unwrap().into(), value.into()))
            .collect();
        assert_eq!(reported, object);
    }
}

#[test]
fn only_headers_with_valid_names_become_attributes() {
    let object = object(&events()[0]);
    assert_eq!(object["tenant"], "blue");
    assert_eq!(object["type"], "order.placed");
    assert_eq!(object["data"], serde_json::json!({"a": 1.5}));
    assert_eq!((&object["traceparent"], &object["tracestate"]), (&PARENT.into(), &"a=1".into()));
    for absent in ["X-Other", "x-other", "averyveryverylongname1", "empty"] {
        assert!(!object.contains_key(absent), "{absent}");
    }
}

#[test]
fn the_partition_key_is_the_message_key() {
    let event = Event::new("a", "").with_aggregate("Order", "42");
    let outgoing = Outgoing::new(Position::new(1), &event);
    let key =
        |outgoing| CloudEventsBinary::default().headers(&outgoing).get("ce-partitionkey").map(str::to_owned);
    assert_eq!(key(outgoing).as_deref(), Some("42"));
    assert_eq!(key(outgoing.with_key(Some("routed"))).as_deref(), Some("routed"));
}

#[test]
fn data_is_json_only_if_the_media_type_and_the_payload_are() {
    for (media_type, payload, data, reported) in [
        (None, "[1,\t2]", r#""data":[1,	2]"#, "application/json"),
        (None, "{", r#""data_base64":"ew==""#, "application/octet-stream"),
        (
            Some("application/vnd.shop+JSON; v=1"),
            "1e400",
            r#""data":1e400"#,
            "application/vnd.shop+JSON; v=1",
        ),
        (Some("application/json"), "{", r#""data_base64":"ew==""#, "application/json"),
        (Some("text/csv"), "1", r#""data_base64":"MQ==""#, "text/csv"),
    ] {
        let event = Event::new("a", payload);
        let event = media_type.map_or(event.clone(), |own| event.with_header("content-type", own));
        let body = CloudEvents::default().encode(&Outgoing::new(Position::new(1), &event)).unwrap().body;
        let end = format!(r#""datacontenttype":"{reported}",{data}}}"#);
        assert!(body.ends_with(end.as_bytes()), "{end} is not in {body:?}");
    }
}

#[test]
fn headers_for_http_are_percent_encoded_and_others_are_not() {
    let event = &events()[2];
    assert_eq!(headers(Binding::Http, event).get("ce-type"), Some("%C3%A9%20%25%22"));
    assert_eq!(headers(Binding::Kafka, event).get("ce_type"), Some("é %\""));
    assert_eq!(headers(Binding::Amqp, event).get("cloudEvents_type"), Some("é %\""));
    assert_eq!(headers(Binding::Mqtt, event).get("type"), Some("é %\""));
    assert_eq!(headers(Binding::Http, event).get("ce-source"), Some("/a%2520b%252F%25C3%25A9"));
}

#[test]
fn the_source_is_the_configured_one_else_the_namespace() {
    let source = |source: Source, event: &Event| source.of(event).into_owned();
    let event = Event::new("a", "");
    assert_eq!(source(Source::default(), &event), "/postrider");
    assert_eq!(source(Source::default(), &event.clone().with_namespace("shop.x")), "/shop.x");
    let fixed = Source::fixed("https://shop.example/a?b#c").unwrap();
    assert_eq!(source(fixed, &event.with_namespace("shop")), "https://shop.example/a?b#c");
    for bad in ["", "a b", "é", "<a>", "a\n"] {
        assert_eq!(Source::fixed(bad).unwrap_err().code(), Code::SourceInvalid, "{bad:?}");
    }
}

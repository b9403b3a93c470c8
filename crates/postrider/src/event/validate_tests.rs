use uuid::Uuid;

use super::*;

/// A name, a change to a valid event, the expected code, and words that the message must contain.
type Case = (&'static str, fn(Event) -> Event, Code, &'static str);

#[rustfmt::skip] // One row per rule.
const CASES: &[Case] = &[
    ("no type", |e| Event { event_type: String::new(), ..e }, Code::TypeEmpty, "the type is empty"),
    (
        "long type",
        |e| Event { event_type: "t".repeat(256), ..e },
        Code::TextTooLong,
        "the type has 256 bytes; the limit is 255",
    ),
    (
        "control in type",
        |e| Event { event_type: "a\nb".into(), ..e },
        Code::ControlCharacter,
        "the type contains U+000A at byte 1",
    ),
    ("no key", |e| e.with_key(""), Code::TextEmpty, "the key is empty"),
    ("long key", |e| e.with_key("ü".repeat(128)), Code::TextTooLong, "the key has 256 bytes"),
    ("control in key", |e| e.with_key("\u{85}"), Code::ControlCharacter, "the key contains U+0085"),
    ("no aggregate type", |e| e.with_aggregate("", "1"), Code::TextEmpty, "aggregate type"),
    ("long aggregate type", |e| e.with_aggregate("k".repeat(256), "1"), Code::TextTooLong, "aggregate type"),
    ("control in aggregate type", |e| e.with_aggregate("\0", "1"), Code::ControlCharacter, "aggregate type"),
    ("no aggregate id", |e| e.with_aggregate("Order", ""), Code::TextEmpty, "aggregate id"),
    ("long aggregate id", |e| e.with_aggregate("Order", "1".repeat(256)), Code::TextTooLong, "aggregate id"),
    ("control in aggregate id", |e| e.with_aggregate("Order", "\t"), Code::ControlCharacter, "aggregate id"),
    ("no topic", |e| e.with_topic(""), Code::TextEmpty, "topic"),
    ("long topic", |e| e.with_topic("t".repeat(256)), Code::TextTooLong, "topic"),
    ("control in topic", |e| e.with_topic("a\r"), Code::ControlCharacter, "topic"),
    ("no namespace", |e| e.with_namespace(""), Code::TextEmpty, "namespace"),
    ("long namespace", |e| e.with_namespace("n".repeat(256)), Code::TextTooLong, "namespace"),
    ("control in namespace", |e| e.with_namespace("\u{7f}"), Code::ControlCharacter, "namespace"),
    ("no producer", |e| e.with_producer(""), Code::TextEmpty, "producer"),
    ("long producer", |e| e.with_producer("p".repeat(256)), Code::TextTooLong, "producer"),
    ("control in producer", |e| e.with_producer("\u{1b}"), Code::ControlCharacter, "producer"),
    ("no header name", |e| e.with_header("", "v"), Code::HeaderName, "\"\""),
    ("bad header name", |e| e.with_header("a b", "v"), Code::HeaderName, "\"a b\""),
    ("control in header name", |e| e.with_header("a\n", "v"), Code::HeaderName, "\"a\\n\""),
    (
        "long header name",
        |e| e.with_header("h".repeat(129), "v"),
        Code::TextTooLong,
        "129 bytes; the limit is 128",
    ),
    ("reserved header", |e| e.with_header("Postrider-Id", "v"), Code::HeaderReserved, "\"Postrider-Id\""),
    (
        "long header value",
        |e| e.with_header("h", "v".repeat(4097)),
        Code::TextTooLong,
        "the header \"h\" has 4097 bytes",
    ),
    (
        "control in header value",
        |e| e.with_header("h", "a\r\nb: c"),
        Code::ControlCharacter,
        "the header \"h\" contains U+000D",
    ),
    (
        "many headers",
        |e| (0..65).fold(e, |e, n| e.with_header(format!("h{n}"), "")),
        Code::TooManyHeaders,
        "65 headers; the limit is 64",
    ),
    (
        "large payload",
        |e| Event { payload: vec![0; 1024 * 1024 + 1].into(), ..e },
        Code::PayloadTooLarge,
        "1048577 bytes; the limit is 1048576",
    ),
    ("no attempts", |e| e.with_max_attempts(0), Code::NumberOutOfRange, "max_attempts is 0"),
    (
        "time before year 1",
        |e| e.with_time(Timestamp::from_micros(i64::MIN)),
        Code::NumberOutOfRange,
        "the time",
    ),
    (
        "expiry after year 9999",
        |e| e.with_expires_at(Timestamp::from_micros(i64::MAX)),
        Code::NumberOutOfRange,
        "the expiry",
    ),
    ("params not JSON", |e| e.with_action(action("{secret")), Code::ParamsInvalid, "params are not JSON"),
    ("no params", |e| e.with_action(action("")), Code::ParamsInvalid, "params are not JSON"),
    ("two params", |e| e.with_action(action("{} {}")), Code::ParamsInvalid, "params are not JSON"),
    (
        "no action name",
        |e| e.with_action(ActionContext { name: String::new(), ..action("{}") }),
        Code::TextEmpty,
        "action's name",
    ),
];

fn action(params: &str) -> ActionContext {
    let time = Timestamp::from_micros(0);
    ActionContext {
        id: Uuid::nil(),
        name: "PlaceOrder".into(),
        params: params.into(),
        started: time,
        completed: time,
    }
}

fn good() -> Event {
    Event::new("order.placed", "secret")
}

#[test]
fn each_broken_rule_has_its_code_and_a_message_that_names_the_event_and_not_its_payload() {
    for (name, spoil, code, words) in CASES {
        let error = validate(&[good(), spoil(good())], &Limits::default()).expect_err(name);
        assert_eq!(error.code(), *code, "{name}: {error}");
        assert!(error.message().starts_with("event 1: "), "{name}: {error}");
        assert!(error.message().contains(words), "{name}: {error}");
        assert!(!error.report().contains("secret"), "{name}: {error}");
    }
}

#[test]
fn an_event_at_every_limit_is_accepted() {
    let full = "f".repeat(255);
    let event = Event::new(full.clone(), vec![0; 1024 * 1024])
        .with_aggregate(full.clone(), full.clone())
        .with_key(full.clone())
        .with_topic(full.clone())
        .with_namespace(full.clone())
        .with_producer(full)
        .with_max_attempts(1)
        .with_action(action(" [1, {\"a\": null}] "));
    let event = (0..63).fold(event, |e, n| e.with_header(format!("h{n}"), ""));
    let event = event.with_header("h".repeat(128), "ü".repeat(2048));
    assert!(validate(&[event], &Limits::default()).is_ok());
    assert!(validate(&[], &Limits::default()).is_ok());
}

#[test]
fn two_events_of_one_call_may_not_share_an_id() {
    let event = good();
    let error = validate(&[event.clone(), good(), event.clone()], &Limits::default()).unwrap_err();
    assert_eq!(error.code(), Code::DuplicateId);
    assert_eq!(error.message(), format!("event 2: the id {} occurs twice in this call", event.id));
}

#[test]
fn a_call_accepts_a_limited_number_of_events() {
    let limits = Limits { events_per_call_max: 2, ..Limits::default() };
    let error = validate(&[good(), good(), good()], &limits).unwrap_err();
    assert_eq!(error.code(), Code::TooManyEvents);
    assert_eq!(error.message(), "3 events in one call; the limit is 2");
}

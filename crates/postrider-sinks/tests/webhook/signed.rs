//! What the receiver gets: signatures, headers, CloudEvents, trace.

use std::process::Command;
use std::sync::Arc;

use postrider::encode::{CloudEvents, CloudEventsBinary, Encoder, Plain};
use postrider::sink::{Message, Outcome, Sink};
use postrider::{Clock, Event, Position, TraceContext};
use postrider_sinks::webhook::{Unverified, Verifier, Webhook};
use postrider_testkit::ManualClock;

use super::server::{Answer, Request, Server};
use super::{SECRET, config};

const OLD: &str = "whsec_b2xkIG9sZCBvbGQgb2xkIG9sZCBvbGQgb2xkIG9sZA==";

async fn arrived(encoder: impl Encoder, event: Event) -> (Event, Request) {
    let server = Server::start(|_| Answer::status(200)).await;
    let config = config(server.url()).secret(SECRET).unwrap().secret(OLD).unwrap();
    let sink = Webhook::open(&config).unwrap();
    let encoder: Arc<dyn Encoder> = Arc::new(encoder);
    let message = Message::encode(&encoder, Position::new(7), Arc::new(event.clone()), "d".into()).unwrap();
    let outcomes = sink.publish(&[message]).await;
    assert!(matches!(outcomes[..], [Outcome::Acknowledged(_)]), "{outcomes:?}");
    (event, server.requests().remove(0))
}

fn header<'r>(request: &'r Request) -> impl Fn(&str) -> Option<&'r str> {
    |name| request.headers.get(name).map(String::as_str)
}

#[tokio::test]
async fn a_request_is_signed_with_both_keys_and_verifies() {
    let (event, request) = arrived(Plain, Event::new("order.placed", r#"{"a": 1.50}"#)).await;
    assert_eq!(request.line, "POST /hook HTTP/1.1");
    assert_eq!(request.headers["webhook-signature"].split(' ').count(), 2);
    for secrets in [&[SECRET][..], &[OLD], &[OLD, SECRET]] {
        let id = Verifier::new(secrets).unwrap().verify(header(&request), &request.body);
        assert_eq!(id, Ok(event.id.to_string().as_str()));
    }
    let other = "whsec_b3RoZXIgb3RoZXIgb3RoZXIgb3RoZXIgb3RoZXI=";
    let refused = Verifier::new([other]).unwrap().verify(header(&request), &request.body);
    assert_eq!(refused, Err(Unverified::NotSigned));
}

#[tokio::test]
async fn the_timestamp_is_that_of_the_attempt_and_the_id_is_that_of_the_event() {
    let server = Server::start(|_| Answer::status(500)).await;
    let clock = Arc::new(ManualClock::default());
    let config = config(server.url()).secret(SECRET).unwrap();
    let sink = Webhook::open_with_clock(&config, clock.clone()).unwrap();
    let one = [postrider_testkit::conformance::sink::message("a", 0)];
    let verifier = Verifier::new([SECRET]).unwrap();
    for _ in 0..2 {
        sink.publish(&one).await;
        clock.advance(std::time::Duration::from_hours(1));
    }
    let seen = server.requests();
    let seconds = |request: &Request| request.headers["webhook-timestamp"].parse::<i64>().unwrap();
    assert_eq!(seconds(&seen[1]) - seconds(&seen[0]), 3600);
    assert_eq!(seen[0].headers["webhook-id"], seen[1].headers["webhook-id"]);
    assert_ne!(seen[0].headers["webhook-signature"], seen[1].headers["webhook-signature"]);
    let now = clock.now().wall;
    assert_eq!(verifier.verify_at(now, header(&seen[0]), &seen[0].body), Err(Unverified::TooOld));
}

#[tokio::test]
async fn python_verifies_the_signature() {
    let payload = "{\"text\": \"Grüße\", \"n\": 1.50}\n";
    let (_, request) = arrived(Plain, Event::new("order.placed", payload)).await;
    let text = |name: &str| request.headers[name].clone();
    let script = "\
import base64, hashlib, hmac, sys
secret, id, timestamp, signatures = sys.argv[1:5]
body = sys.stdin.buffer.read()
key = base64.b64decode(secret.removeprefix('whsec_'))
code = hmac.new(key, f'{id}.{timestamp}.'.encode() + body, hashlib.sha256).digest()
print('v1,' + base64.b64encode(code).decode() in signatures.split(' '))
";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("body"), &request.body).unwrap();
    for (secret, known) in
        [(SECRET, "True"), (OLD, "True"), ("whsec_bm8gbm8gbm8gbm8gbm8gbm8gbm8gbm8=", "False")]
    {
        let python = Command::new("python3")
            .args(["-c", script, secret, &text("webhook-id"), &text("webhook-timestamp")])
            .arg(text("webhook-signature"))
            .stdin(std::fs::File::open(folder.path().join("body")).unwrap())
            .output();
        let Ok(python) = python else {
            println!("SKIPPED: python_verifies_the_signature: there is no python3");
            return;
        };
        assert_eq!(String::from_utf8_lossy(&python.stdout).trim(), known, "{python:?}");
    }
}

#[tokio::test]
async fn the_trace_of_the_writer_arrives_in_every_format() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace = TraceContext::parse(parent, Some("congo=t61rcWkgMzE,rojo=50%")).unwrap();
    let event = || Event::new("order.placed", "{}").with_trace(&trace);
    for (event, request) in [
        arrived(Plain, event()).await,
        arrived(CloudEvents::default(), event()).await,
        arrived(CloudEventsBinary::default(), event()).await,
    ] {
        assert_eq!(request.headers["traceparent"], parent);
        assert_eq!(request.headers["tracestate"], "congo=t61rcWkgMzE,rojo=50%");
        assert_eq!(request.headers["webhook-id"], event.id.to_string());
    }
}

#[tokio::test]
async fn cloudevents_arrive_structured_and_binary() {
    let event = || Event::new("order.placed", r#"{"total": 12}"#).with_namespace("shop");
    let (sent, binary) = arrived(CloudEventsBinary::default(), event()).await;
    assert_eq!(binary.body, r#"{"total": 12}"#);
    assert_eq!(binary.headers["content-type"], "application/json");
    let expected = [("id", sent.id.to_string()), ("type", "order.placed".into()), ("source", "/shop".into())];
    for (name, value) in &expected {
        assert_eq!(binary.headers[&format!("ce-{name}")], *value);
    }
    let (sent, structured) = arrived(CloudEvents::default(), event()).await;
    assert_eq!(structured.headers["content-type"], "application/cloudevents+json");
    let object: serde_json::Value = serde_json::from_slice(&structured.body).unwrap();
    assert_eq!((&object["id"], &object["specversion"]), (&sent.id.to_string().into(), &"1.0".into()));
    assert_eq!(object["data"]["total"], 12);
}

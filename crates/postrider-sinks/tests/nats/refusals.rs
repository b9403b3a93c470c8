//! A bad message, a missing stream, a wrong subject and a forbidden one are distinguished, and affect no other message.

use postrider::Headers;
use postrider::sink::{Outcome, Sink};
use postrider_sinks::nats::{Login, NatsConfig, NewStream};
use postrider_testkit::conformance::sink::{batch, message, message_with};
use postrider_testkit::servers::nats::{PASSWORD, USER_WITHOUT_RIGHTS, shared};

use super::stream::{ACK, config, letters, message_to, name, open, texts};

#[tokio::test]
async fn a_missing_stream_fails_the_message_and_is_told_apart_from_an_outage() {
    let Some(server) = shared() else { return };
    let stream = name("missing");
    let sink = open(&config(server, &stream));
    let outcomes = sink.publish(&[message("a", 0), message("b", 0)]).await;
    assert_eq!(letters(&outcomes), "ff", "{outcomes:?}");
    assert!(format!("{outcomes:?}").contains("does not exist"), "{outcomes:?}");
    server.create_stream(&stream, &stream, &[]);
    assert_eq!(letters(&sink.publish(&[message("a", 0), message("b", 0)]).await), "aa");
    server.delete_stream(&stream);
    assert_eq!(letters(&sink.publish(&[message("a", 1)]).await), "f");
}

#[tokio::test]
async fn a_subject_of_no_stream_or_of_another_stream_fails_and_no_other_message_is_affected() {
    let Some(server) = shared() else { return };
    let (ours, other) = (name("ours"), name("other"));
    server.create_stream(&ours, &format!("{ours}.*"), &[]);
    server.create_stream(&other, &format!("{other}.*"), &[]);
    let sink = open(&NatsConfig::new(server.url(), &ours).ack_timeout(ACK));
    let to = |subject: String, key: &str| message_to(&subject, key, key);
    let outcomes = sink
        .publish(&[
            to(format!("{ours}.x"), "a"),
            to(format!("{other}.x"), "b"),
            to(name("nobody"), "c"),
            to(format!("{ours}.*"), "d"),
            to(format!("$JS.API.STREAM.DELETE.{ours}"), "e"),
            to(format!("{ours}.y"), "f"),
        ])
        .await;
    assert_eq!(letters(&outcomes), "affrra", "{outcomes:?}");
    assert!(format!("{:?}", outcomes[2]).contains("does not store subject"), "{outcomes:?}");
    assert_eq!(texts(&server.read(&ours)).len(), 2);
    assert!(server.read(&other).is_empty());
}

#[tokio::test]
async fn after_a_message_that_a_full_stream_refuses_no_later_one_of_its_key_is_sent() {
    let Some(server) = shared() else { return };
    let stream = name("full");
    let per_subject = ["max_msgs_per_subject=2", "discard=\"new\"", "discard_new_per_subject=true"];
    server.create_stream(&stream, &format!("{stream}.*"), &per_subject);
    let sink = open(&NatsConfig::new(server.url(), &stream).ack_timeout(ACK));
    let to = |subject: &str, key: &str, number: u32| {
        message_to(&format!("{stream}.{subject}"), key, &format!("{key}{number}"))
    };
    let messages = [
        to("full", "a", 0),
        to("full", "a", 1),
        to("open", "b", 0),
        // The third one does not fit, and the fourth would.
        to("full", "a", 2),
        to("open", "a", 3),
        to("open", "b", 1),
    ];
    let outcomes = sink.publish(&messages).await;
    assert_eq!(letters(&outcomes), "aaay-a", "{outcomes:?}");
    let mut seen = texts(&server.read(&stream));
    seen.sort();
    assert_eq!(seen, ["a0", "a1", "b0", "b1"]);
}

#[tokio::test]
async fn a_subject_without_permission_fails_the_message() {
    let Some(server) = shared() else { return };
    let stream = name("rights");
    server.create_stream(&stream, &format!("allowed.{stream},forbidden.{stream}"), &[]);
    let login = Login::Password(USER_WITHOUT_RIGHTS.to_owned(), PASSWORD.to_owned());
    let servers = format!("nats://127.0.0.1:{}", server.port());
    let sink = open(&NatsConfig::new(servers, &stream).login(login).ack_timeout(ACK));
    let to = |subject: &str| message_to(&format!("{subject}.{stream}"), subject, subject);
    let outcomes = sink.publish(&[to("allowed"), to("forbidden")]).await;
    assert_eq!(letters(&outcomes), "af", "{outcomes:?}");
    assert!(format!("{:?}", outcomes[1]).contains("may not publish"), "{outcomes:?}");
    assert_eq!(texts(&server.read(&stream)), ["allowed"]);
}

#[tokio::test]
async fn what_does_not_fit_is_rejected_without_effect_on_other_messages() {
    let Some(server) = shared() else { return };
    let stream = name("fit");
    server.create_stream(&stream, &stream, &["max_msg_size=2000"]);
    let sink = open(&config(server, &stream));
    let body = |key: &str, bytes: usize| message_with(key, 0, vec![b'x'; bytes], Headers::default());
    let outcomes =
        sink.publish(&[message("a", 0), body("b", 3000), body("c", 2 << 20), message("d", 0)]).await;
    assert_eq!(letters(&outcomes), "arra", "{outcomes:?}");
}

#[tokio::test]
async fn a_receipt_contains_the_sequence_and_a_duplicate_within_the_window_is_stored_once() {
    let Some(server) = shared() else { return };
    let stream = name("receipt");
    server.create_stream(&stream, &stream, &[]);
    let sink = open(&config(server, &stream));
    let messages: Vec<_> = ["a", "b"].map(|key| message(key, 0)).into();
    let first = sink.publish(&messages).await;
    let second = open(&config(server, &stream)).publish(&messages).await;
    let stored = server.read(&stream);
    assert_eq!(stored.len(), 2);
    for ((message, stored), (first, second)) in messages.iter().zip(&stored).zip(first.iter().zip(&second)) {
        let (Outcome::Acknowledged(first), Outcome::Acknowledged(second)) = (first, second) else { panic!() };
        assert_eq!(first.text, format!("stream {stream} sequence {}", stored.sequence));
        assert_eq!(second.text, format!("{}, a duplicate", first.text));
        assert_eq!(stored.header("postrider-id"), Some(&*message.event.id.to_string()));
        assert_eq!(stored.header("content-type"), Some(&*message.content_type));
    }
}

#[tokio::test]
async fn a_stream_is_created_at_the_start_if_configured_and_not_changed_if_it_exists() {
    let Some(server) = shared() else { return };
    let stream = name("created");
    for number in 0..2 {
        let new = NewStream::new([format!("{stream}.>"), stream.clone()]);
        let sink = open(&config(server, &stream).create_stream(new));
        let outcomes = sink.publish(&batch("a", number..number + 1)).await;
        assert_eq!(letters(&outcomes), "a", "{outcomes:?}");
        sink.close().await;
    }
    assert_eq!(server.read(&stream).len(), 2);
}

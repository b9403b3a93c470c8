//! Endpoints that are slow, silent, disconnected or absent, and how many requests they receive.

use std::sync::Arc;

use postrider::sink::{Message, Outcome, Sink};
use postrider_sinks::webhook::{Webhook, WebhookConfig};
use postrider_testkit::conformance::sink::message;
use tokio::net::TcpListener;

use super::server::{Answer, Server};
use super::{config, hasty, sink};

fn batch(count: usize) -> Vec<Message> {
    (0..count).map(|number| message(&format!("key-{number}"), number)).collect()
}

#[tokio::test]
async fn a_request_without_a_response_is_ambiguous() {
    let server = Server::start(|_| Answer::Never).await;
    let outcomes = hasty(&server).publish(&[message("a", 0)]).await;
    assert!(
        matches!(&outcomes[..], [Outcome::Ambiguous(f)] if f.message.contains("no answer")),
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn failures_after_the_last_acknowledgement_are_distinguished_from_earlier_ones() {
    // One at a time, so the first is answered before the others.
    for (first, expected) in [(200, [false, true, true]), (500, [true; 3])] {
        let server = Server::start(move |request| match request.body.ends_with(b":0}") {
            true => Answer::status(first),
            false => Answer::status(500),
        })
        .await;
        assert_eq!(after_last_acknowledgement(&server).await, expected);
    }
    let server = Server::start(|request| match request.body.ends_with(b":2}") {
        true => Answer::status(200),
        false => Answer::status(500),
    })
    .await;
    assert_eq!(after_last_acknowledgement(&server).await, [false; 3]);
}

async fn after_last_acknowledgement(server: &Server) -> Vec<bool> {
    let mut config = config(server.url());
    config.concurrency = 1;
    let outcomes = Webhook::open(&config).unwrap().publish(&batch(3)).await;
    let reported = |outcome: &Outcome| match outcome {
        Outcome::Acknowledged(_) => false,
        Outcome::Retryable(failure) => failure.after_last_acknowledgement,
        other => panic!("{other:?}"),
    };
    outcomes.iter().map(reported).collect()
}

#[tokio::test]
async fn a_connection_cut_after_the_request_is_ambiguous() {
    for answer in [Answer::Cut, Answer::Raw(b"HTTP/1.1 20".to_vec()), Answer::Raw(b"what?\r\n\r\n".to_vec())]
    {
        let server = Server::start(move |_| answer.clone()).await;
        let outcomes = sink(&server).publish(&[message("a", 0)]).await;
        assert!(matches!(outcomes[..], [Outcome::Ambiguous(_)]), "{outcomes:?}");
        assert_eq!(server.requests().len(), 1, "what may have arrived is not sent again by the sink");
    }
}

#[tokio::test]
async fn a_success_response_with_a_truncated_body_is_a_success() {
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec();
    let server = Server::start(move |_| Answer::Raw(cut.clone())).await;
    let outcomes = sink(&server).publish(&[message("a", 0)]).await;
    assert!(matches!(outcomes[..], [Outcome::Acknowledged(_)]), "{outcomes:?}");
}

#[tokio::test]
async fn an_unreachable_endpoint_is_an_outage() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut config = config(format!("http://{free}/T0KEN"));
    config.concurrency = 1;
    let outcomes = Webhook::open(&config).unwrap().publish(&batch(3)).await;
    let [Outcome::Down(failure), Outcome::Untried, Outcome::Untried] = &outcomes[..] else {
        panic!("{outcomes:?}");
    };
    assert!(failure.message.starts_with(&format!("cannot connect to http://{free}")), "{}", failure.message);
    assert!(failure.message.contains("refused") && !failure.message.contains("T0KEN"), "{}", failure.message);
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_an_outage_for_https() {
    let server = Server::start(|_| Answer::status(200)).await;
    let sink = Webhook::open(&config(server.url().replace("http:", "https:"))).unwrap();
    let outcomes = sink.publish(&[message("a", 0)]).await;
    assert!(matches!(outcomes[..], [Outcome::Down(_)]), "{outcomes:?}");
}

#[tokio::test]
async fn an_endpoint_gets_no_more_concurrent_requests_than_configured() {
    let server = Server::holding(|_| Answer::status(200)).await;
    let mut config = config(server.url());
    config.concurrency = 4;
    let sink = Arc::new(Webhook::open(&config).unwrap());
    // Two batches share the endpoint.
    let publishing = [0, 1].map(|_| {
        let sink = sink.clone();
        tokio::spawn(async move { sink.publish(&batch(20)).await })
    });
    server.wait_for(4).await;
    for answered in 1..=40 {
        server.let_answer(1);
        server.wait_for((4 + answered).min(40)).await;
    }
    for outcomes in publishing {
        assert!(outcomes.await.unwrap().iter().all(|o| matches!(o, Outcome::Acknowledged(_))));
    }
    assert_eq!(server.open_max(), 4);
}

#[tokio::test]
async fn messages_that_were_not_started_in_time_are_untried_and_count_no_attempt() {
    let server = Server::start(|_| Answer::Never).await;
    let mut config = config(server.url());
    config.concurrency = 2;
    config.timeout = std::time::Duration::from_millis(300);
    let sink = Arc::new(Webhook::open(&config).unwrap());
    let first = tokio::spawn({
        let sink = sink.clone();
        async move { sink.publish(&batch(10)).await }
    });
    server.wait_for(2).await;
    let second = sink.publish(&batch(10)).await;
    let first = first.await.unwrap();
    assert_eq!(first.iter().filter(|o| matches!(o, Outcome::Ambiguous(_))).count(), 2, "{first:?}");
    assert_eq!(first.iter().filter(|o| **o == Outcome::Untried).count(), 8, "{first:?}");
    // No message of the second batch was tried, because of the endpoint and not because of the message.
    assert!(matches!(second[0], Outcome::Down(_)), "{second:?}");
    assert!(second[1..].iter().all(|outcome| *outcome == Outcome::Untried), "{second:?}");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_slow_endpoint_does_not_delay_another() {
    let silent = Server::start(|_| Answer::Never).await;
    let quick = Server::start(|_| Answer::status(200)).await;
    let mut config = WebhookConfig::routed();
    config.allow_networks = vec!["127.0.0.1".into()];
    config.allow_hosts = vec![silent.address.to_string(), quick.address.to_string()];
    config.concurrency = 1;
    let sink = Webhook::open(&config).unwrap();
    let to = |server: &Server, key: &str| {
        let mut message = message(key, 0);
        message.destination = server.url().into();
        message
    };
    let batch = [to(&silent, "a"), to(&silent, "b"), to(&quick, "c"), to(&quick, "d")];
    let publishing = sink.publish(&batch);
    let both = async {
        quick.wait_for(2).await;
        assert_eq!(silent.requests().len(), 1);
    };
    tokio::select! {
        outcomes = publishing => panic!("{outcomes:?}"),
        () = both => {}
    }
}

#[tokio::test]
async fn a_forbidden_destination_is_refused_before_a_byte_is_sent() {
    let server = Server::start(|_| Answer::status(200)).await;
    let mut config = WebhookConfig::routed();
    config.allow_hosts = vec!["*".into()];
    let sink = Webhook::open(&config).unwrap();
    for destination in [server.url(), "orders".into(), "http://hooks.example/".into()] {
        let mut message = message("a", 0);
        message.destination = destination.as_str().into();
        let outcomes = sink.publish(&[message]).await;
        assert!(matches!(outcomes[..], [Outcome::Rejected(_)]), "{destination}: {outcomes:?}");
    }
    let localhost = server.url().replace("127.0.0.1", "localhost");
    let mut message = message("a", 0);
    message.destination = localhost.into();
    let outcomes = sink.publish(&[message]).await;
    assert!(matches!(&outcomes[..], [Outcome::Down(f)] if f.message.contains("loopback")), "{outcomes:?}");
    assert!(server.requests().is_empty());
    assert!(Webhook::open(&WebhookConfig::new(server.url())).unwrap_err().report().contains("loopback"));
}

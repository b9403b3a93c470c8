//! The responses of an endpoint, and the outcomes of the message.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::sink::{Failure, Message, Outcome, Receipt, Sink};
use postrider_sinks::webhook::Webhook;
use postrider_testkit::ManualClock;
use postrider_testkit::conformance::sink::message;

use super::server::{Answer, Server};
use super::{config, sink};

async fn outcome_of(answer: Answer) -> Outcome {
    let server = Server::start(move |_| answer.clone()).await;
    let mut outcomes = sink(&server).publish(&[message("a", 0)]).await;
    outcomes.pop().unwrap()
}

fn batch(count: usize) -> Vec<Message> {
    (0..count).map(|number| message(&format!("key-{number}"), number)).collect()
}

fn down(outcome: &Outcome) -> &Failure {
    match outcome {
        Outcome::Down(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_success_response_is_a_receipt() {
    let expected = Outcome::Acknowledged(Receipt::new("status 202"));
    assert_eq!(outcome_of(Answer::body(202, "thank you")).await, expected);
}

#[tokio::test]
async fn each_status_class_has_its_own_outcome() {
    let outcomes = [
        (500, "Retryable"),
        (503, "Retryable"),
        (404, "Retryable"),
        (502, "Ambiguous"),
        (401, "Down"),
        (410, "Down"),
        (429, "Down"),
        (409, "Failed"),
        (400, "Rejected"),
        (413, "Rejected"),
    ];
    for (status, class) in outcomes {
        let outcome = format!("{:?}", outcome_of(Answer::body(status, "because")).await);
        assert!(outcome.starts_with(class) && outcome.contains(&format!("answered {status}")), "{outcome}");
        assert!(outcome.contains("because"), "{outcome}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_its_target_is_reported() {
    let elsewhere = Server::start(|_| Answer::status(200)).await;
    let location = format!("location: {}?token=T0KEN", elsewhere.url());
    for status in [301, 302, 303, 307, 308] {
        let outcome = outcome_of(Answer::header(status, &location)).await;
        let message = &down(&outcome).message;
        assert!(message.contains(&format!("redirects to http://{}", elsewhere.address)), "{message}");
        assert!(!message.contains("T0KEN"), "{message}");
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn an_endpoint_that_is_gone_requests_a_pause() {
    let outcome = outcome_of(Answer::status(410)).await;
    assert!(down(&outcome).pause);
    assert!(!down(&outcome_of(Answer::status(401)).await).pause);
}

#[tokio::test]
async fn an_endpoint_that_sends_retry_after_gets_no_request_before_that_time() {
    let count = Arc::new(AtomicUsize::new(0));
    let server = Server::start({
        let count = count.clone();
        move |_| match count.fetch_add(1, Ordering::SeqCst) {
            0 => Answer::header(429, "retry-after: 30"),
            _ => Answer::status(200),
        }
    })
    .await;
    let clock = Arc::new(ManualClock::default());
    let sink = Webhook::open_with_clock(&config(server.url()), clock.clone()).unwrap();
    let one = [message("a", 0)];

    assert_eq!(down(&sink.publish(&one).await[0]).retry_after, Some(Duration::from_secs(30)));
    clock.advance(Duration::from_secs(20));
    let outcomes = sink.publish(&batch(3)).await;
    assert_eq!(down(&outcomes[0]).retry_after, Some(Duration::from_secs(10)));
    assert_eq!(count.load(Ordering::SeqCst), 1);

    clock.advance(Duration::from_secs(10));
    assert!(matches!(sink.publish(&one).await[0], Outcome::Acknowledged(_)));
}

#[tokio::test]
async fn an_endless_response_is_read_only_up_to_a_limit() {
    let endless = |status: u16| {
        let head = format!("HTTP/1.1 {status} Said\r\ncontent-length: 1000000000\r\n\r\n");
        Answer::Raw([head.as_bytes(), &vec![b'x'; 1_000_000]].concat())
    };
    assert!(matches!(outcome_of(endless(200)).await, Outcome::Acknowledged(_)));
    let Outcome::Rejected(failure) = outcome_of(endless(400)).await else { panic!() };
    assert!(failure.message.len() < 1000, "{}", failure.message.len());
}

#[tokio::test]
async fn a_token_that_the_endpoint_repeats_is_masked() {
    let server = Server::start(|request| {
        let token = &request.headers["authorization"];
        Answer::body(403, &format!("no such token: {token} for {}", request.line))
    })
    .await;
    let mut config = config(format!("{}/P4TH-T0KEN?key=QU3RY", server.url()));
    config.authorization = Some("Bearer S3CRET-T0KEN".into());
    let outcome = format!("{:?}", Webhook::open(&config).unwrap().publish(&[message("a", 0)]).await);
    assert!(outcome.contains("no such token: ***"), "{outcome}");
    for secret in ["S3CRET", "P4TH", "QU3RY"] {
        assert!(!outcome.contains(secret), "{outcome}");
    }
    assert!(!format!("{config:?}").contains("T0KEN"));
}

#[tokio::test]
async fn an_endpoint_that_refuses_everything_does_not_get_the_whole_batch() {
    let server = Server::start(|_| Answer::status(500)).await;
    let mut config = config(server.url());
    config.concurrency = 1;
    let outcomes = Webhook::open(&config).unwrap().publish(&batch(100)).await;
    assert_eq!(server.requests().len(), 8);
    assert_eq!(outcomes.iter().filter(|o| matches!(o, Outcome::Retryable(_))).count(), 8);
    assert_eq!(outcomes.iter().filter(|o| **o == Outcome::Untried).count(), 92);
}

#[tokio::test]
async fn a_refused_message_does_not_stop_other_messages() {
    let server = Server::start(|request| match request.body.ends_with(b"\"number\":7}") {
        true => Answer::status(400),
        false => Answer::status(200),
    })
    .await;
    let outcomes = sink(&server).publish(&batch(20)).await;
    for (number, outcome) in outcomes.iter().enumerate() {
        assert_eq!(matches!(outcome, Outcome::Rejected(_)), number == 7, "{outcome:?}");
        assert_eq!(matches!(outcome, Outcome::Acknowledged(_)), number != 7, "{outcome:?}");
    }
}

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use super::super::brain::{DestinationId, KeyId};
use super::*;
use crate::encode::Envelope;
use crate::route::{Route, Router, Rule};
use crate::sink::Receipt;
use crate::{BoxFuture, Event, Position};

/// Answers each destination with the configured outcome, and records what it was sent.
#[derive(Default)]
struct ScriptedSink {
    answers: Mutex<Vec<(&'static str, Outcome)>>,
    sent: Mutex<Vec<String>>,
    /// Panics after it has recorded a message at this position.
    panics_on: AtomicI64,
}

impl Sink for ScriptedSink {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        let answers = self.answers.lock().unwrap().clone();
        let answer = |message: &Message| {
            self.sent.lock().unwrap().push(format!("{}@{}", message.position, message.destination));
            assert!(self.panics_on.load(Ordering::Relaxed) != message.position.get(), "a bug in the sink");
            let reported = answers.iter().find(|(destination, _)| **destination == *message.destination);
            reported.map_or(acknowledged(), |(_, outcome)| outcome.clone())
        };
        Box::pin(std::future::ready(batch.iter().map(answer).collect()))
    }
}

fn acknowledged() -> Outcome {
    Outcome::Acknowledged(Receipt::default())
}

fn failure(message: &str) -> Failure {
    Failure::new(message)
}

struct Fixture {
    sink: Arc<ScriptedSink>,
    publisher: Publisher,
    router: Router,
}

impl Fixture {
    /// Every order goes to `a` and `b`, everything to `c`.
    fn new() -> Self {
        let rules = [Rule::to("a").types(["order"]), Rule::to("b").types(["order"]), Rule::to("c")];
        let sink = Arc::new(ScriptedSink::default());
        let publisher = Publisher {
            subscription: "fixture".into(),
            sink: sink.clone(),
            encoder: Arc::new(Envelope),
            timeout: Duration::from_secs(1),
            copies: Arc::default(),
        };
        Self { sink, publisher, router: Router::by_topic().every_match(rules).unwrap() }
    }

    fn answer(&self, answers: impl IntoIterator<Item = (&'static str, Outcome)>) {
        *self.sink.answers.lock().unwrap() = answers.into_iter().collect();
    }

    fn panic_on(&self, position: i64) {
        self.sink.panics_on.store(position, Ordering::Relaxed);
    }

    /// Events of these types, at positions from 1 on.
    fn batch(&self, types: &[&str]) -> Vec<Routed> {
        let routed = |(at, kind): (usize, &&str)| {
            let id = uuid::Uuid::from_u128(at as u128);
            let event = Arc::new(Event::new(*kind, "{}").with_id(id));
            let Route::To { name, delivery } = self.router.route(&event) else { panic!("no route") };
            let disposition = Disposition::Deliver { id: DestinationId(0), name, delivery };
            Routed {
                position: Position::new(at as i64 + 1),
                key: KeyId(at as u64),
                disposition,
                attempts: 0,
                redelivery: None,
                event,
            }
        };
        types.iter().enumerate().map(routed).collect()
    }

    fn take_sent(&self) -> String {
        std::mem::take(&mut *self.sink.sent.lock().unwrap()).join(" ")
    }

    /// Publishes events of these types. Returns what was sent, and the outcomes.
    async fn publish(&self, types: &[&str]) -> (String, Vec<Outcome>) {
        let outcomes = self.publisher.clone().publish(Arc::new(self.batch(types)), Arc::default()).await;
        (self.take_sent(), outcomes)
    }
}

#[tokio::test]
async fn an_event_for_several_destinations_is_acknowledged_when_all_have_it() {
    let (sent, outcomes) = Fixture::new().publish(&["user", "order", "user"]).await;
    assert_eq!(sent, "1@c 2@a 2@b 2@c 3@c");
    assert_eq!(outcomes, vec![acknowledged(); 3]);
}

#[tokio::test]
async fn a_retry_sends_only_the_copies_that_are_missing() {
    let fixture = Fixture::new();
    fixture.answer([("b", Outcome::Retryable(failure("no")))]);
    let (_, outcomes) = fixture.publish(&["order", "user"]).await;
    assert_eq!(outcomes, [Outcome::Retryable(failure("b: no")), acknowledged()]);
    let (sent, outcomes) = fixture.publish(&["order"]).await;
    assert_eq!((&*sent, outcomes), ("1@b", vec![Outcome::Retryable(failure("b: no"))]));
    fixture.answer([]);
    let (sent, outcomes) = fixture.publish(&["order"]).await;
    assert_eq!((&*sent, outcomes), ("1@b", vec![acknowledged()]));
    assert_eq!(fixture.publish(&["order"]).await.0, "1@a 1@b 1@c", "what is done is forgotten");
}

#[tokio::test]
async fn a_new_term_sends_all_copies_again() {
    let fixture = Fixture::new();
    fixture.answer([("b", Outcome::Down(failure("no")))]);
    fixture.publish(&["order"]).await;
    fixture.publisher.copies.clear();
    assert_eq!(fixture.publish(&["order"]).await.0, "1@a 1@b 1@c");
}

#[tokio::test]
async fn every_copy_is_retried_before_the_event_is_given_up() {
    let (down, ambiguous) = (Outcome::Down(failure("d")), Outcome::Ambiguous(failure("m")));
    let (retryable, failed) = (Outcome::Retryable(failure("r")), Outcome::Failed(failure("f")));
    let rejected = Outcome::Rejected(failure("x"));
    let ranks = [down, ambiguous, retryable, failed, rejected, Outcome::Untried, acknowledged()];
    for (at, worse) in ranks.iter().enumerate() {
        for better in &ranks[at..] {
            let fixture = Fixture::new();
            fixture.answer([("a", better.clone()), ("b", worse.clone())]);
            let outcome = fixture.publish(&["order"]).await.1.remove(0);
            assert_eq!(std::mem::discriminant(&outcome), std::mem::discriminant(worse), "{better:?}");
        }
    }
}

#[tokio::test]
async fn a_rejected_copy_names_its_destination_and_ends_the_event() {
    let fixture = Fixture::new();
    fixture.answer([("a", Outcome::Rejected(failure("too large"))), ("b", Outcome::Untried)]);
    assert_eq!(fixture.publish(&["order"]).await.1, [Outcome::Rejected(failure("a: too large"))]);
}

#[tokio::test]
async fn an_event_on_which_the_sink_panics_may_have_been_written_and_is_ambiguous() {
    let fixture = Fixture::new();
    fixture.panic_on(2);
    let batch = fixture.batch(&["user", "user", "user"]);
    let outcomes = fixture.publisher.clone().publish_apart(&batch).await;
    let panicked = Outcome::Ambiguous(failure("the sink panicked on this message"));
    assert_eq!(outcomes, [acknowledged(), panicked, acknowledged()]);
    assert_eq!(fixture.take_sent(), "1@c 2@c 3@c");
}

use std::sync::Mutex;

use super::super::brain::{DestinationId, KeyId};
use super::*;
use crate::encode::Envelope;
use crate::route::{Route, Router, Rule};
use crate::sink::Receipt;
use crate::{BoxFuture, Event, Position};

/// Answers as scripted by destination, and keeps its messages.
#[derive(Default)]
struct Told {
    answers: Mutex<Vec<(&'static str, Outcome)>>,
    sent: Mutex<Vec<String>>,
}

impl Sink for Told {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        let answers = self.answers.lock().unwrap();
        let answer = |message: &Message| {
            self.sent.lock().unwrap().push(format!("{}@{}", message.position, message.destination));
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

struct Bench {
    sink: Arc<Told>,
    publisher: Publisher,
    router: Router,
}

impl Bench {
    /// Every order goes to `a` and `b`, everything to `c`.
    fn new() -> Self {
        let rules = [Rule::to("a").types(["order"]), Rule::to("b").types(["order"]), Rule::to("c")];
        let sink = Arc::new(Told::default());
        let publisher = Publisher {
            subscription: "bench".into(),
            sink: sink.clone(),
            encoder: Arc::new(Envelope),
            timeout: Duration::from_secs(1),
            fanout: Arc::default(),
        };
        Self { sink, publisher, router: Router::by_topic().every_match(rules).unwrap() }
    }

    fn answer(&self, answers: impl IntoIterator<Item = (&'static str, Outcome)>) {
        *self.sink.answers.lock().unwrap() = answers.into_iter().collect();
    }

    /// Publishes events of these types at positions from 1 on; what was sent, and the outcomes.
    async fn publish(&self, types: &[&str]) -> (String, Vec<Outcome>) {
        let routed = |(at, kind): (usize, &&str)| {
            let id = uuid::Uuid::from_u128(at as u128);
            let event = Arc::new(Event::new(*kind, "{}").with_id(id));
            let Route::To { name, delivery } = self.router.route(&event) else { panic!("no route") };
            let disposition = Disposition::Deliver { id: DestinationId(0), name, delivery };
            Routed { position: Position::new(at as i64 + 1), key: KeyId(at as u64), disposition, event }
        };
        let batch = types.iter().enumerate().map(routed).collect();
        let outcomes = self.publisher.clone().publish(Arc::new(batch)).await;
        (std::mem::take(&mut *self.sink.sent.lock().unwrap()).join(" "), outcomes)
    }
}

#[tokio::test]
async fn an_event_for_several_destinations_is_acknowledged_when_all_have_it() {
    let (sent, outcomes) = Bench::new().publish(&["user", "order", "user"]).await;
    assert_eq!(sent, "1@c 2@a 2@b 2@c 3@c");
    assert_eq!(outcomes, vec![acknowledged(); 3]);
}

#[tokio::test]
async fn a_retry_sends_only_the_copies_that_are_missing() {
    let bench = Bench::new();
    bench.answer([("b", Outcome::Retryable(failure("no")))]);
    let (_, outcomes) = bench.publish(&["order", "user"]).await;
    assert_eq!(outcomes, [Outcome::Retryable(failure("b: no")), acknowledged()]);
    let (sent, outcomes) = bench.publish(&["order"]).await;
    assert_eq!((&*sent, outcomes), ("1@b", vec![Outcome::Retryable(failure("b: no"))]));
    bench.answer([]);
    let (sent, outcomes) = bench.publish(&["order"]).await;
    assert_eq!((&*sent, outcomes), ("1@b", vec![acknowledged()]));
    assert_eq!(bench.publish(&["order"]).await.0, "1@a 1@b 1@c", "what is done is forgotten");
}

#[tokio::test]
async fn a_new_lease_epoch_sends_all_copies_again() {
    let bench = Bench::new();
    bench.answer([("b", Outcome::Down(failure("no")))]);
    bench.publish(&["order"]).await;
    bench.publisher.fanout.forget();
    assert_eq!(bench.publish(&["order"]).await.0, "1@a 1@b 1@c");
}

#[tokio::test]
async fn the_outcome_of_an_event_is_that_of_its_copy_that_needs_the_most_retries() {
    let (down, ambiguous) = (Outcome::Down(failure("d")), Outcome::Ambiguous(failure("m")));
    let (retryable, failed) = (Outcome::Retryable(failure("r")), Outcome::Failed(failure("f")));
    let rejected = Outcome::Rejected(failure("x"));
    let ranks = [down, ambiguous, retryable, failed, rejected, Outcome::Untried, acknowledged()];
    for (at, worse) in ranks.iter().enumerate() {
        for better in &ranks[at..] {
            let bench = Bench::new();
            bench.answer([("a", better.clone()), ("b", worse.clone())]);
            let outcome = bench.publish(&["order"]).await.1.remove(0);
            assert_eq!(std::mem::discriminant(&outcome), std::mem::discriminant(worse), "{better:?}");
        }
    }
}

#[tokio::test]
async fn a_refused_copy_is_reported_with_its_destination_and_fails_the_event() {
    let bench = Bench::new();
    bench.answer([("a", Outcome::Rejected(failure("too large"))), ("b", Outcome::Untried)]);
    assert_eq!(bench.publish(&["order"]).await.1, [Outcome::Rejected(failure("a: too large"))]);
}

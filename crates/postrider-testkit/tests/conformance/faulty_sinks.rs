//! A suite that no sink can fail proves nothing: each of these sinks breaks one promise, and the suite must detect it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use postrider::BoxFuture;
use postrider::sink::{Capabilities, Failure, Message, Outcome, Receipt, Sink};
use postrider_testkit::conformance::sink::{Hook, Seen, SinkUnderTest, cases};

/// Keeps messages in memory, except for its fault.
#[derive(Default)]
struct MemorySink<const FAULT: u8> {
    kept: Mutex<Vec<Bytes>>,
}

const NONE: u8 = 0;
const LOSES: u8 = 1;
const REVERSES: u8 = 2;
const MISCOUNTS: u8 = 3;
const TRUNCATES: u8 = 4;
const CONTINUES: u8 = 5;
const WRITES_TWICE: u8 = 6;

impl<const FAULT: u8> MemorySink<FAULT> {
    fn keep(&self, message: &Message) -> Outcome {
        let mut body = message.body.clone();
        if FAULT == TRUNCATES {
            body.truncate(1000);
        }
        let copies = match FAULT {
            LOSES => 0,
            WRITES_TWICE => 2,
            _ => 1,
        };
        self.kept.lock().unwrap().extend(vec![body; copies]);
        Outcome::Acknowledged(Receipt::default())
    }
}

impl<const FAULT: u8> Sink for MemorySink<FAULT> {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        let mut stopped = false;
        let publish_one = |message: &Message| match () {
            () if stopped => Outcome::Untried,
            () if message.body == "refused" => {
                stopped = FAULT != CONTINUES && message.key() == Some("a");
                Outcome::Rejected(Failure::new("refused"))
            }
            () => self.keep(message),
        };
        let mut outcomes: Vec<Outcome> = match FAULT {
            REVERSES => batch.iter().rev().map(publish_one).collect(),
            _ => batch.iter().map(publish_one).collect(),
        };
        if FAULT == MISCOUNTS {
            outcomes.pop();
        }
        Box::pin(std::future::ready(outcomes))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::PREFIX_SAFE
    }
}

struct Fixture<const FAULT: u8>(Arc<MemorySink<FAULT>>);

impl<const FAULT: u8> SinkUnderTest for Fixture<FAULT> {
    async fn fresh() -> Self {
        Self(Arc::default())
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::clone(&self.0) as _
    }

    fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>> {
        let kept = self.0.kept.lock().unwrap().clone();
        let seen = kept.into_iter().map(|body| Seen { body, headers: None }).collect();
        Box::pin(std::future::ready(Hook::Done(seen)))
    }

    fn refused_body(&self) -> Hook<Bytes> {
        Hook::Done("refused".into())
    }
}

mod a_correct_sink_passes {
    postrider_testkit::sink_conformance!(super::Fixture<{ super::NONE }>);
}

#[tokio::test]
#[should_panic = "messages seen and published"]
async fn a_sink_that_loses_a_message_is_detected() {
    cases::acknowledged_means_readable::<Fixture<LOSES>>().await;
}

#[tokio::test]
#[should_panic = "is not seen as published"]
async fn a_sink_that_changes_the_order_is_detected() {
    cases::the_order_of_a_key_is_kept::<Fixture<REVERSES>>().await;
}

#[tokio::test]
#[should_panic]
async fn a_sink_that_loses_an_outcome_is_detected() {
    cases::each_message_has_one_outcome_in_the_batchs_order::<Fixture<MISCOUNTS>>().await;
}

#[tokio::test]
#[should_panic = "is not seen as published"]
async fn a_sink_that_truncates_bodies_is_detected() {
    cases::a_large_body_arrives_whole::<Fixture<TRUNCATES>>().await;
}

#[tokio::test]
#[should_panic = "Rejected"]
async fn a_sink_that_continues_after_a_failure_is_detected() {
    cases::after_a_refused_message_no_later_one_of_its_key_is_seen::<Fixture<CONTINUES>>().await;
}

#[tokio::test]
#[should_panic = "messages seen and published"]
async fn a_sink_that_writes_twice_is_detected() {
    cases::batches_at_the_same_time_do_not_mix::<Fixture<WRITES_TWICE>>().await;
}

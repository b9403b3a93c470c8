//! The final check can fail: it detects destinations that lie.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postrider::sink::{Message, Outcome, Receipt, Sink};
use postrider::{BoxFuture, Result};
use postrider_verify::Sighting;

use super::destination::{Analytics, AuditFile, Destination, Receiver};
use super::folder::Folder;
use super::plan::Plan;
use super::report::Report;
use super::run::run;
use super::view::View;
use crate::exit::Exit;
use crate::output::{ColorWhen, Output, Verbosity};

/// Which message a liar lies about.
const LIE_AT: u64 = 100;

/// What the liar does with that message.
#[derive(Debug, Clone, Copy)]
enum Lie {
    Drop,
    Repeat,
}

/// Forwards all messages except one unchanged.
struct Liar {
    honest: Analytics,
    lie: Lie,
    messages: AtomicU64,
}

impl Liar {
    async fn take(&self, message: &Message) -> Outcome {
        let one = std::slice::from_ref(message);
        let times = match (self.messages.fetch_add(1, Ordering::Relaxed), self.lie) {
            (LIE_AT, Lie::Drop) => return Outcome::Acknowledged(Receipt::default()),
            // More than once, because the first attempt may fail.
            (LIE_AT, Lie::Repeat) => 4,
            _ => 1,
        };
        let mut outcome = Outcome::Untried;
        for _ in 0..times {
            outcome = self.honest.publish(one).await.remove(0);
        }
        outcome
    }
}

impl Sink for Liar {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let mut outcomes = Vec::new();
            for message in batch {
                outcomes.push(self.take(message).await);
            }
            outcomes
        })
    }
}

impl Destination for Liar {
    fn received(&self) -> Result<Vec<Sighting>> {
        self.honest.received()
    }
}

fn demo(destination: impl Destination) -> Report {
    let folder = Folder::temporary(false).unwrap();
    let plan = Plan { events: Some(500), hurry: true, ..Plan::default() };
    let audit = AuditFile::open(&folder.audit()).unwrap();
    let receivers = vec![
        Receiver { name: "audit", target: String::new(), destination: Arc::new(audit) },
        Receiver { name: "analytics", target: String::new(), destination: Arc::new(destination) },
    ];
    let output = Output::new(true, ColorWhen::Never, Verbosity::Quiet);
    let mut view = View::open(output, true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(&plan, &folder, receivers, &mut view)).unwrap()
}

fn liar(lie: Lie) -> Liar {
    Liar { honest: Analytics::new(Duration::ZERO), lie, messages: AtomicU64::new(0) }
}

#[test]
fn honest_destinations_pass_the_check() {
    let report = demo(Analytics::new(Duration::ZERO));
    assert!(report.ok, "{report:?}");
    assert_eq!((report.worst.written, report.worst.duplicates), (500, 0));
}

#[test]
fn a_destination_that_drops_one_event_fails_the_check() {
    let report = demo(liar(Lie::Drop));
    assert!(!report.ok, "{report:?}");
    assert_eq!(report.ended().unwrap_err().exit(), Exit::Failed);
    assert_eq!((report.worst.lost, report.subscriptions[0].figures.lost), (1, 0));
}

#[test]
fn a_destination_that_repeats_an_event_is_found_out_and_forgiven() {
    let report = demo(liar(Lie::Repeat));
    assert!(report.ok, "{report:?}");
    assert!(report.worst.duplicates > 0);
}

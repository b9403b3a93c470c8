//! Publishes many messages of few keys as a relay does, and checks what a consumer sees.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use postrider::sink::{Message, Outcome, Sink};
use postrider_verify::{Sighting, Verdict, verify};
use tokio::sync::watch;

/// Batches at once, each with its own keys.
const BATCHES: usize = 4;
/// Messages of a key in a batch.
const PER_KEY_MAX: usize = 50;
/// Pause before a batch is tried again of which nothing was written.
const RETRY: Duration = Duration::from_millis(20);

/// What happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Messages that are acknowledged.
    pub acknowledged: usize,
    /// Outcomes that count against a message, except rejections: its destination has to be fixed.
    pub failed: usize,
    /// Outcomes that say that the destination is down or did not answer.
    pub unanswered: usize,
}

/// Messages of some keys.
#[derive(Debug)]
pub struct HotKeys {
    /// The messages of each key, in order.
    keys: Vec<Vec<Message>>,
    progress: watch::Sender<Progress>,
}

impl HotKeys {
    /// These messages, which have several keys and different bodies.
    pub fn new(messages: Vec<Message>) -> Self {
        let mut keys: Vec<Vec<Message>> = Vec::new();
        for message in messages {
            match keys.iter_mut().find(|key| key.first().is_some_and(|first| first.key() == message.key())) {
                Some(key) => key.push(message),
                None => keys.push(vec![message]),
            }
        }
        Self { keys, progress: watch::Sender::default() }
    }

    /// Waits until the progress is as asked for.
    pub async fn reaches(&self, reached: impl FnMut(&Progress) -> bool) {
        // The sender is part of this value.
        _ = self.progress.subscribe().wait_for(reached).await;
    }

    /// The progress so far.
    pub fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Publishes all messages until each is acknowledged or rejected: several batches at once, with many messages of a key
    /// in each if the sink is prefix safe. Returns the rejected messages.
    ///
    /// # Panics
    /// If a message is acknowledged although an earlier one of its key in the batch is not.
    pub async fn publish(self: &Arc<Self>, sink: &Arc<dyn Sink>) -> Vec<Message> {
        let lanes: Vec<_> = (0..BATCHES)
            .map(|lane| {
                let (this, sink) = (self.clone(), sink.clone());
                tokio::spawn(async move { this.publish_lane(&*sink, lane).await })
            })
            .collect();
        let mut rejected = Vec::new();
        for lane in lanes {
            match lane.await {
                Ok(of_lane) => rejected.extend(of_lane),
                Err(failed) => std::panic::resume_unwind(failed.into_panic()),
            }
        }
        rejected
    }

    async fn publish_lane(&self, sink: &dyn Sink, lane: usize) -> Vec<Message> {
        let per_key = if sink.capabilities().prefix_safe { PER_KEY_MAX } else { 1 };
        let mut open: Vec<&[Message]> =
            self.keys.iter().skip(lane).step_by(BATCHES).map(Vec::as_slice).collect();
        let mut rejected = Vec::new();
        loop {
            open.retain(|key| !key.is_empty());
            let taken: Vec<usize> = open.iter().map(|key| key.len().min(per_key)).collect();
            let batch: Vec<Message> =
                open.iter().zip(&taken).flat_map(|(key, taken)| key[..*taken].to_vec()).collect();
            if batch.is_empty() {
                return rejected;
            }
            let outcomes = sink.publish(&batch).await;
            assert_eq!(outcomes.len(), batch.len());
            self.count(&outcomes);
            let (mut outcomes, mut is_any_done) = (outcomes.as_slice(), false);
            for (key, taken) in open.iter_mut().zip(taken) {
                let (of_key, rest) = outcomes.split_at(taken);
                outcomes = rest;
                let is_written = |outcome: &Outcome| matches!(outcome, Outcome::Acknowledged(_));
                let mut done = of_key.iter().take_while(|outcome| is_written(outcome)).count();
                let all = of_key.iter().filter(|outcome| is_written(outcome)).count();
                assert_eq!(all, done, "acknowledged behind a message that is not: {of_key:?}");
                if matches!(of_key.get(done), Some(Outcome::Rejected(_))) {
                    rejected.push(key[done].clone());
                    done += 1;
                }
                is_any_done |= done > 0;
                *key = &key[done..];
            }
            if !is_any_done {
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    fn count(&self, outcomes: &[Outcome]) {
        self.progress.send_modify(|progress| {
            for outcome in outcomes {
                match outcome {
                    Outcome::Acknowledged(_) => progress.acknowledged += 1,
                    Outcome::Failed(_) => progress.failed += 1,
                    Outcome::Ambiguous(_) | Outcome::Down(_) | Outcome::Retryable(_) => {
                        progress.unanswered += 1
                    }
                    Outcome::Rejected(_) | Outcome::Untried | Outcome::Fenced => {}
                }
            }
        });
    }

    /// Compares the bodies that a consumer sees, in its order, with the messages except the rejected ones.
    pub fn verify<'a>(&self, seen: impl IntoIterator<Item = &'a [u8]>, rejected: &[Message]) -> Verdict {
        let (mut written, mut known) = (Vec::new(), HashMap::<Bytes, Sighting>::new());
        for messages in &self.keys {
            let left =
                messages.iter().filter(|one| !rejected.iter().any(|other| other.event.id == one.event.id));
            for (message, version) in left.zip(1..) {
                let key = message.key().unwrap_or_default().to_owned();
                let sighting = Sighting { id: message.event.id, key, version };
                known.insert(message.body.clone(), sighting.clone());
                written.push(sighting);
            }
        }
        let unknown = || Sighting { id: uuid::Uuid::nil(), key: String::new(), version: 0 };
        let seen: Vec<Sighting> =
            seen.into_iter().map(|body| known.get(body).cloned().unwrap_or_else(unknown)).collect();
        verify(&written, &seen)
    }
}

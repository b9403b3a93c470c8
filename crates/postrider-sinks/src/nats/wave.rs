//! Sends messages of different keys, and finds out what became of each.

use async_nats::jetstream::context::PublishError;
use futures_util::future::join_all;
use postrider::sink::{Failure, Message, Outcome, Receipt};
use tokio::time::{Instant, timeout_at};

use super::config::NatsConfig;
use super::error::{self, Meaning, meaning};
use super::message;
use super::session::{Found, Session};

/// What became of a message.
enum Sent {
    /// It has its outcome.
    Known(Outcome),
    /// Nothing listens to its subject.
    NoResponder,
    /// Without an acknowledgement, for this reason.
    Unknown(String),
}

/// Sends some messages of a batch, with different keys.
pub(super) struct Sender<'a> {
    pub(super) config: &'a NatsConfig,
    pub(super) session: &'a Session,
    pub(super) batch: &'a [Message],
    pub(super) deadline: Instant,
}

impl Sender<'_> {
    /// The outcomes of these messages of the batch, by index.
    pub(super) async fn send(&self, indices: &[usize]) -> Vec<(usize, Outcome)> {
        let sent = join_all(indices.iter().map(|at| self.publish(&self.batch[*at]))).await;
        // One question to the server for all messages without a clear answer.
        let stream = match sent.iter().all(|sent| matches!(sent, Sent::Known(_))) {
            true => None,
            false => Some(self.session.find_stream().await),
        };
        if let Some(Found::Unavailable(_)) = stream {
            self.session.retire();
        }
        let outcome = |(&at, sent)| (at, self.outcome(&self.batch[at], sent, stream.as_ref()));
        indices.iter().zip(sent).map(outcome).collect()
    }

    async fn publish(&self, message: &Message) -> Sent {
        let rejected = |why: String| Sent::Known(Outcome::Rejected(Failure::new(why)));
        let subject = match message::subject(self.config, message) {
            Ok(subject) => subject,
            Err(why) => return rejected(why),
        };
        let publish = match message::publish(self.config, message, subject) {
            Ok(publish) => publish,
            Err(why) => return rejected(why),
        };
        let acknowledged = async {
            let sent = self.session.send(subject, publish).await?;
            sent.await
        };
        let acknowledged = async {
            tokio::select! {
                acknowledged = acknowledged => Some(acknowledged),
                () = self.session.denied(subject) => None,
            }
        };
        match timeout_at(self.deadline, acknowledged).await {
            Ok(Some(Ok(ack))) if ack.stream == self.config.stream => {
                let duplicate = if ack.duplicate { ", a duplicate" } else { "" };
                let receipt = format!("stream {} sequence {}{duplicate}", ack.stream, ack.sequence);
                Sent::Known(Outcome::Acknowledged(Receipt::new(receipt)))
            }
            Ok(Some(Ok(ack))) => Sent::Known(Outcome::Failed(Failure::new(format!(
                "stream {:?} stored it, not {:?}",
                ack.stream, self.config.stream
            )))),
            Ok(Some(Err(error))) => self.failed(subject, &error),
            Ok(None) => Sent::Known(Outcome::Failed(Failure::new(format!(
                "this user may not publish to {subject:?}"
            )))),
            Err(_) => Sent::Unknown("no acknowledgement in time".to_owned()),
        }
    }

    fn failed(&self, subject: &str, error: &PublishError) -> Sent {
        let failure = Failure::new(format!("subject {subject:?}: {}", error::text(error)));
        Sent::Known(match meaning(error) {
            Meaning::Refused => Outcome::Rejected(failure),
            Meaning::NotAllowedYet => Outcome::Failed(failure),
            Meaning::Full => Outcome::Retryable(failure),
            Meaning::Unavailable => Outcome::Down(failure),
            Meaning::NoResponder => return Sent::NoResponder,
            Meaning::Unknown => return Sent::Unknown(error::text(error)),
        })
    }

    fn outcome(&self, message: &Message, sent: Sent, stream: Option<&Found>) -> Outcome {
        let why = match sent {
            Sent::Known(outcome) => return outcome,
            Sent::NoResponder => None,
            Sent::Unknown(why) => Some(why),
        };
        let name = &self.config.stream;
        let subject = self.config.subject.as_deref().unwrap_or(&message.destination);
        match (why, stream) {
            (None, Some(Found::Stream(_))) => Outcome::Failed(Failure::new(format!(
                "stream {name:?} does not store subject {subject:?}; add it to the subjects of the stream"
            ))),
            (None, Some(Found::Missing)) => Outcome::Failed(Failure::new(format!(
                "stream {name:?} does not exist; create it, or let the sink create it (`create_subjects`)"
            ))),
            (None, Some(Found::Unavailable(why))) => Outcome::Down(Failure::new(why.clone())),
            (None, None) => Outcome::Down(Failure::new("nothing listens to the subject")),
            (Some(_), Some(Found::Unavailable(why))) => {
                Outcome::Ambiguous(Failure::new(why.clone()).while_down())
            }
            (Some(why), _) => Outcome::Ambiguous(Failure::new(why)),
        }
    }
}

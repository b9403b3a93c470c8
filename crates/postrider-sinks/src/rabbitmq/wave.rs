//! Sends messages of different keys on one channel, and finds out what became of each.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use lapin::options::BasicPublishOptions;
use lapin::{Channel, Confirmation, Error};
use postrider::sink::{Failure, Message, Outcome, Receipt};
use tokio::time::{Instant, timeout_at};

use super::config::RabbitMqConfig;
use super::error::{self, Meaning, meaning};
use super::message::{self, Address, Publish, Unfit};
use super::session::Session;

/// What became of a message that was passed to the client.
#[derive(Debug)]
enum Fate {
    /// The server has stored it in every queue that it was routed to.
    Confirmed,
    /// No queue: the server returned it, with this reason.
    Returned(String),
    /// The server says that it could not store it in every queue.
    Refused,
    /// It was certainly not sent.
    NotSent(Error),
    /// Without a confirm, because of this error.
    Lost(Error),
    /// Without a confirm, or with one that may belong to another message.
    Unknown,
}

/// Sends some messages of a batch, with different keys.
pub(super) struct Sender<'a> {
    pub(super) config: &'a RabbitMqConfig,
    pub(super) session: &'a Session,
    pub(super) batch: &'a [Message],
    pub(super) deadline: Instant,
}

impl Sender<'_> {
    /// The outcomes of these messages of the batch, by index.
    pub(super) async fn send(&self, indices: &[usize]) -> Vec<(usize, Outcome)> {
        let mut outcomes = Vec::with_capacity(indices.len());
        let mut fit = Vec::with_capacity(indices.len());
        for &at in indices {
            match self.prepare(at).await {
                Ok(publish) => fit.push((at, publish)),
                Err(outcome) => outcomes.push((at, outcome)),
            }
        }
        let together = self.attempt(&fit).await;
        let closes_channel =
            |sent: &Fate| matches!(sent, Fate::Lost(error) | Fate::NotSent(error) if is_of_a_message(error));
        let must_split = fit.len() > 1 && together.iter().any(closes_channel);
        let mut is_lost = false;
        for ((at, publish), sent) in fit.into_iter().zip(together) {
            // The server closed the channel because of one of them: each is tried by itself.
            let sent = if must_split && closes_channel(&sent) {
                match self.alone(at, publish.clone(), sent).await {
                    Ok(sent) => sent,
                    Err(outcome) => {
                        outcomes.push((at, outcome));
                        continue;
                    }
                }
            } else {
                sent
            };
            is_lost |= matches!(sent, Fate::Unknown);
            outcomes.push((at, self.outcome(&publish.address, sent)));
        }
        if is_lost {
            self.check_connection(&mut outcomes).await;
        }
        outcomes
    }

    /// The publish of a message, or its outcome if it cannot be sent.
    async fn prepare(&self, at: usize) -> Result<Publish, Outcome> {
        let message = &self.batch[at];
        let publish = message::publish(self.config, message, self.session.frame_bytes_max());
        let publish = publish.map_err(|unfit| match unfit {
            Unfit::Message(why) => Outcome::Rejected(Failure::new(why)),
            Unfit::Destination(why) => Outcome::Failed(Failure::new(why)),
        })?;
        let limit = self.session.message_bytes_max.load(Ordering::Relaxed);
        if message.body.len() > limit {
            return Err(too_large(message, limit));
        }
        let exchange = &publish.address.exchange;
        match timeout_at(self.deadline, self.session.has_exchange(exchange)).await {
            Ok(Ok(true)) => Ok(publish),
            Ok(Ok(false)) => Err(Outcome::Failed(missing(exchange.as_str()))),
            Ok(Err(error)) => Err(Outcome::Down(Failure::new(error::text(&error)))),
            Err(_) => Err(Outcome::Down(Failure::new("the server does not answer"))),
        }
    }

    /// Tries a message again that was in flight when the server closed the channel, or its outcome.
    async fn alone(&self, at: usize, publish: Publish, before: Fate) -> Result<Fate, Outcome> {
        if Instant::now() >= self.deadline {
            return Ok(before);
        }
        // The server may have reported a limit meanwhile, and the exchange may be gone.
        if let Fate::Lost(error) | Fate::NotSent(error) = &before {
            self.learn(&publish.address, error);
        }
        let publish = self.prepare(at).await?;
        let sent = self.attempt(std::slice::from_ref(&(at, publish))).await.pop();
        Ok(sent.unwrap_or(Fate::Unknown))
    }

    /// Remembers what an error says about later messages.
    fn learn(&self, address: &Address, error: &Error) {
        match meaning(error) {
            Meaning::TooLarge(limit) => {
                self.session.message_bytes_max.fetch_min(limit, Ordering::Relaxed);
            }
            Meaning::ExchangeMissing => self.session.forget_exchange(&address.exchange),
            _ => {}
        }
    }

    /// Sends the messages on a channel of their own, and waits for their confirms.
    async fn attempt(&self, messages: &[(usize, Publish)]) -> Vec<Fate> {
        if messages.is_empty() {
            return Vec::new();
        }
        let channel = match self.session.channel().await {
            Ok(channel) => channel,
            Err(error) => {
                // Often the first sign that the connection is lost.
                self.session.retire();
                return messages.iter().map(|_| Fate::NotSent(error.clone())).collect();
            }
        };
        let confirmed = join_all(messages.iter().map(|(at, publish)| self.confirm(&channel, *at, publish)));
        let confirmed = confirmed.await;
        let is_complete = confirmed.iter().all(|one| matches!(one, Ok(Some(_))));
        if is_complete {
            self.session.give_back(channel);
        }
        sort_out(messages, confirmed, is_complete)
    }

    /// Publishes a message and waits for its confirm, at most until the deadline. The error says whether it was sent.
    async fn confirm(
        &self,
        channel: &Channel,
        at: usize,
        publish: &Publish,
    ) -> Result<Option<Confirmation>, (bool, Error)> {
        let mandatory = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let Address { exchange, routing_key, .. } = publish.address.clone();
        let (body, properties) = (&self.batch[at].body[..], publish.properties.clone());
        let confirmed = async {
            let was_open = channel.status().connected();
            let sent = channel.basic_publish(exchange, routing_key, mandatory, body, properties).await;
            sent.map_err(|error| (was_open, error))?.await.map_err(|error| (true, error))
        };
        match timeout_at(self.deadline, confirmed).await {
            Ok(confirmed) => confirmed.map(Some),
            Err(_) => Ok(None),
        }
    }

    fn outcome(&self, address: &Address, sent: Fate) -> Outcome {
        let Address { exchange, routing_key, .. } = address;
        match sent {
            Fate::Confirmed => Outcome::Acknowledged(Receipt::default()),
            Fate::Returned(why) => Outcome::Rejected(Failure::new(format!(
                "unroutable: exchange {exchange:?} has no queue for routing key {routing_key:?} ({why})"
            ))),
            Fate::Refused => Outcome::Ambiguous(Failure::new(
                "the server could not store it in every queue (nack): a queue is full, or not available",
            )),
            Fate::NotSent(error) => {
                let failure = Failure::new(error::text(&error));
                if is_of_a_message(&error) { self.refused(address, &error) } else { Outcome::Down(failure) }
            }
            Fate::Lost(error) if is_of_a_message(&error) => self.refused(address, &error),
            Fate::Lost(error) if meaning(&error) == Meaning::Unknown => {
                Outcome::Ambiguous(Failure::new(error::text(&error)))
            }
            Fate::Lost(error) => Outcome::Ambiguous(Failure::new(error::text(&error)).while_down()),
            Fate::Unknown => Outcome::Ambiguous(Failure::new("no confirm in time")),
        }
    }

    /// The outcome of a message that was alone on a channel when the server closed it.
    fn refused(&self, address: &Address, error: &Error) -> Outcome {
        self.learn(address, error);
        let said = error::text(error);
        match meaning(error) {
            Meaning::ExchangeMissing => Outcome::Failed(missing(address.exchange.as_str())),
            Meaning::NotAllowed => {
                Outcome::Failed(Failure::new(format!("this user may not write there: {said}")))
            }
            _ => Outcome::Rejected(Failure::new(said)),
        }
    }

    /// Some confirms did not arrive. If the server does not answer either, or accepts no messages, it is down.
    async fn check_connection(&self, outcomes: &mut [(usize, Outcome)]) {
        let blocked = self.session.is_blocked();
        if !blocked && self.session.answers().await {
            return;
        }
        if !blocked {
            self.session.retire();
        }
        let why = if blocked { BLOCKED } else { "the server does not answer" };
        for (_, outcome) in outcomes {
            if let Outcome::Ambiguous(failure) = outcome {
                *failure = Failure::new(why).while_down();
            }
        }
    }
}

/// Why a server that is up accepts no messages.
pub(super) const BLOCKED: &str =
    "the server blocks publishers: its memory or its disk is full (`rabbitmqctl status` lists the alarms)";

/// Assigns returned messages to those that were sent. The client hands a returned message to whichever confirm comes
/// next, which may be that of another message: only exchange, routing key and message id tell to which it belongs.
fn sort_out(
    messages: &[(usize, Publish)],
    confirmed: Vec<Result<Option<Confirmation>, (bool, Error)>>,
    is_complete: bool,
) -> Vec<Fate> {
    let mut returned: HashMap<Address, String> = HashMap::new();
    let mut sent = Vec::with_capacity(confirmed.len());
    for one in confirmed {
        sent.push(match one {
            Ok(Some(confirmation)) => {
                let is_refused = confirmation.is_nack();
                if let Some(message) = confirmation.take_message() {
                    let reason = message.reply_text.to_string();
                    let delivery = message.delivery;
                    let message_id = delivery.properties.message_id().clone().unwrap_or_default();
                    let (exchange, routing_key) = (delivery.exchange, delivery.routing_key);
                    returned.insert(Address { exchange, routing_key, message_id }, reason);
                }
                if is_refused { Fate::Refused } else { Fate::Confirmed }
            }
            Ok(None) => Fate::Unknown,
            Err((false, error)) => Fate::NotSent(error),
            Err((true, error)) => Fate::Lost(error),
        });
    }
    for ((_, publish), sent) in messages.iter().zip(&mut sent) {
        match returned.get(&publish.address) {
            Some(reason) => *sent = Fate::Returned(reason.clone()),
            // The return of this one may wait for a confirm that never came.
            None if !is_complete && !returned.is_empty() && matches!(sent, Fate::Confirmed) => {
                *sent = Fate::Unknown;
            }
            None => {}
        }
    }
    sent
}

/// Whether the server closed a channel because of a message: other messages of the channel were not the reason.
fn is_of_a_message(error: &Error) -> bool {
    error.is_amqp_soft_error()
}

fn missing(exchange: &str) -> Failure {
    Failure::new(format!(
        "exchange {exchange:?} does not exist; create it, or let the sink declare it (`declare_exchange`)"
    ))
}

fn too_large(message: &Message, limit: usize) -> Outcome {
    let size = message.body.len();
    Outcome::Rejected(Failure::new(format!("the message has {size} bytes; the server's limit is {limit}")))
}

//! The sink.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use postrider::sink::{Capabilities, Destinations, Failure, Message, Outcome, Sink};
use postrider::{BoxFuture, Code, Error, Result};
use rumqttc::{PublishOptions, QoS};

use super::config::{MqttConfig, Qos};
use super::connection::{Broker, Connection, Open};
use super::error::outcome;
use super::message::{properties, refusal};

/// A probe costs one message, and a connection if there is none.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// Publishes each message to the topic that its destination names, with QoS 1 or 2.
///
/// - Acknowledged means that the broker has confirmed the message. Whether it keeps it for subscribers that are not connected,
///   and whether on disk, depends on their sessions and on the broker, which does not report it.
/// - Key, id and headers are user properties; the media type is the content type.
/// - Several events of a key may be in a batch: each is sent when the one before it is confirmed.
/// - A message that no subscription matches fails, because the broker discards it, unless
///   [`MqttConfig::require_subscriber`] is false. Not all brokers report it.
/// - A message that is too large, or whose topic is not valid, is rejected. If this user may not publish to a topic, the
///   message fails; an operator has to fix it.
/// - After a lost connection the client repeats nothing by itself. Consumers recognise repeated events by `postrider-id`.
pub struct Mqtt {
    config: MqttConfig,
    connection: Connection,
}

/// The result of one message.
enum Sent {
    Done(Outcome),
    /// The connection ended before the broker confirmed it.
    Lost,
    /// The connection ended before it was sent.
    Unsent,
}

impl Mqtt {
    /// Creates the client. It connects at the first message, so a broker that is down is not an error here.
    ///
    /// # Errors
    /// [`Code::SinkOpen`] for invalid settings and for certificates that cannot be read.
    pub fn open(config: &MqttConfig) -> Result<Self> {
        Ok(Self { config: config.clone(), connection: Connection::new(config)? })
    }

    /// Connects, and returns what the broker reports about itself.
    ///
    /// # Errors
    /// [`Code::SinkFailed`] if it does not answer, refuses this user, or does not support the configured QoS.
    pub async fn broker(&self) -> Result<Broker> {
        let failed = |why: String| Error::new(Code::SinkFailed, self.describe(&why));
        let open = self.connection.connect().await.map_err(failed)?;
        match self.unsupported(open.broker) {
            None => Ok(open.broker),
            Some(why) => Err(failed(why)),
        }
    }

    /// What the settings need and the broker does not support.
    fn unsupported(&self, broker: Broker) -> Option<String> {
        let qos = self.config.qos.number();
        if broker.qos_max < qos {
            return Some(format!("the broker supports QoS up to {}, not {qos}; set `qos`", broker.qos_max));
        }
        (self.config.retain && !broker.retains)
            .then(|| "the broker keeps no retained messages; set `retain = false`".to_owned())
    }

    fn topic_of<'a>(&'a self, message: &'a Message) -> &'a str {
        self.config.topic.as_deref().unwrap_or(&message.destination)
    }

    fn describe(&self, why: &str) -> String {
        format!("mqtt {}: {why}", self.config.address)
    }

    async fn publish_batch(&self, batch: &[Message]) -> Vec<Outcome> {
        if batch.is_empty() {
            return Vec::new();
        }
        let down = |why: String| vec![Outcome::Down(Failure::new(self.describe(&why))); batch.len()];
        let open = match self.connection.open().await {
            Ok(open) => open,
            Err(why) => return down(why),
        };
        if let Some(why) = self.unsupported(open.broker) {
            return down(why);
        }
        let mut chains: FuturesUnordered<_> =
            chains(batch).into_iter().map(|chain| self.send_chain(&open, batch, chain)).collect();
        let mut sent: Vec<Option<Sent>> = batch.iter().map(|_| None).collect();
        while let Some(results) = chains.next().await {
            results.into_iter().for_each(|(at, result)| sent[at] = Some(result));
        }
        let is_broken = |sent: &Option<Sent>| matches!(sent, Some(Sent::Lost | Sent::Unsent));
        let broken = if sent.iter().any(is_broken) { Some(self.after(&open).await) } else { None };
        let outcomes = sent.into_iter().map(|sent| match (sent, &broken) {
            (Some(Sent::Done(outcome)), _) => outcome,
            (Some(Sent::Lost), Some(failure)) => Outcome::Ambiguous(failure.clone()),
            (Some(Sent::Unsent), Some(failure)) if failure.destination_down => Outcome::Down(failure.clone()),
            (Some(Sent::Unsent), Some(failure)) => Outcome::Retryable(failure.clone()),
            _ => Outcome::Untried,
        });
        outcomes.collect()
    }

    /// Sends the messages of a key, one after the other, until one is not acknowledged.
    async fn send_chain(&self, open: &Open, batch: &[Message], chain: Vec<usize>) -> Vec<(usize, Sent)> {
        let mut results = Vec::with_capacity(chain.len());
        for at in chain {
            let sent = self.send(open, &batch[at]).await;
            let is_acknowledged = matches!(sent, Sent::Done(Outcome::Acknowledged(_)));
            results.push((at, sent));
            if !is_acknowledged {
                break;
            }
        }
        results
    }

    /// Sends a message and waits for its confirmation, as long as the broker confirms anything at all.
    async fn send(&self, open: &Open, message: &Message) -> Sent {
        let (topic, properties) = (self.topic_of(message), properties(message));
        let own = usize::try_from(open.broker.packet_bytes_max.unwrap_or(u32::MAX)).unwrap_or(usize::MAX);
        let bytes_max = own.min(self.config.message_bytes_max);
        let is_configured = self.config.topic.is_some();
        if let Some(why) = refusal(topic, is_configured, &properties, message.body.len(), bytes_max) {
            return Sent::Done(Outcome::Rejected(Failure::new(why)));
        }
        let qos = match self.config.qos {
            Qos::AtLeastOnce => QoS::AtLeastOnce,
            Qos::ExactlyOnce => QoS::ExactlyOnce,
        };
        let options = PublishOptions::new(qos).retain(self.config.retain).properties(properties);
        let confirmed = async {
            let notice = open.client.publish_tracked(topic, message.body.clone(), options).await;
            let Ok(notice) = notice else { return None };
            Some(notice.wait_async().await)
        };
        let mut confirmed = std::pin::pin!(confirmed);
        loop {
            let before = open.confirmed.load(Ordering::Relaxed);
            match tokio::time::timeout(self.config.timeout, &mut confirmed).await {
                Ok(None) => return Sent::Unsent,
                Ok(Some(result)) => {
                    return match outcome(topic, result, self.config.require_subscriber) {
                        Some(outcome) => {
                            open.confirmed.fetch_add(1, Ordering::Relaxed);
                            Sent::Done(outcome)
                        }
                        None => Sent::Lost,
                    };
                }
                // Others were confirmed in this time: it waits for its turn.
                Err(_) if open.confirmed.load(Ordering::Relaxed) != before => {}
                Err(_) => return Sent::Lost,
            }
        }
    }

    /// The failure of messages that a broken connection has lost. Checks whether the broker accepts a new one.
    async fn after(&self, broken: &Open) -> Failure {
        let mut failure = Failure::new(self.describe(&broken.why_ended()));
        self.connection.forget(broken).await;
        // After the end of a connection it confirms nothing of the batch.
        failure.after_last_acknowledgement = true;
        match self.connection.open().await {
            Ok(_) => failure,
            Err(_) => failure.while_down(),
        }
    }
}

/// The messages of each key, by index in their order. A message without a key is alone.
fn chains(batch: &[Message]) -> Vec<Vec<usize>> {
    let mut chains: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<Cow<'_, str>, usize> = HashMap::new();
    for (at, message) in batch.iter().enumerate() {
        let chain = match message.ordering_key() {
            Some(key) => *known.entry(key).or_insert(chains.len()),
            None => chains.len(),
        };
        match chains.get_mut(chain) {
            Some(chain) => chain.push(at),
            None => chains.push(vec![at]),
        }
    }
    chains
}

impl Sink for Mqtt {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(self.publish_batch(batch))
    }

    fn capabilities(&self) -> Capabilities {
        let destinations =
            if self.config.topic.is_some() { Destinations::Fixed } else { Destinations::Topics };
        Capabilities::PREFIX_SAFE.with_probe_max(PROBE_MAX).with_destinations(destinations)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.connection.close())
    }
}

impl fmt::Debug for Mqtt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mqtt").field(&self.config).finish()
    }
}

//! The limit: the client of MQTT alone, with a future per message and the same packets.

use std::sync::Arc;
use std::time::Duration;

use rumqttc::{
    AsyncClient, Broker, BrokerSessionResumePolicy, Event, EventLoop, MqttOptions, Packet, PublishOptions,
    PublishProperties, QoS, SessionMode,
};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::machine::Meter;
use crate::records::Record;
use crate::{Error, Usage};

/// As many as the sink of Postrider.
const IN_FLIGHT_MAX: u16 = 1_000;
const QUEUE_MAX: usize = 256;
/// Without a message for this long, a session has no more.
const QUIET: Duration = Duration::from_secs(3);

/// Publishes all records with QoS 1, and waits for the last confirmation.
pub(crate) async fn alone(address: (&str, u16), topic: &str, records: &[Record]) -> Result<Usage, Error> {
    let mut options = MqttOptions::new("postrider-bench-alone", Broker::tcp(address.0, address.1));
    options.set_outgoing_inflight_upper_limit(IN_FLIGHT_MAX);
    let (client, events) = AsyncClient::builder(options).capacity(QUEUE_MAX).try_build()?;
    let events = connected(events).await?;
    let driver = tokio::spawn(drive(events));
    let room = Arc::new(Semaphore::new(usize::from(IN_FLIGHT_MAX)));
    let meter = Meter::start();
    let mut confirmed = JoinSet::new();
    for Record { key, body, headers } in records {
        while let Some(result) = confirmed.try_join_next() {
            result??;
        }
        let permit = room.clone().acquire_owned().await?;
        let key = key.iter().map(|key| ("key".to_owned(), key.clone()));
        let properties = PublishProperties {
            user_properties: key.chain(headers.iter().cloned()).collect(),
            ..PublishProperties::default()
        };
        let options = PublishOptions::new(QoS::AtLeastOnce).properties(properties);
        let notice = client.publish_tracked(topic, body.clone(), options).await?;
        confirmed.spawn(async move {
            let result = notice.wait_async().await;
            drop(permit);
            result
        });
    }
    while let Some(result) = confirmed.join_next().await {
        result??;
    }
    let usage = meter.stop();
    driver.abort();
    Ok(usage)
}

/// Creates a session for which the broker keeps the messages of a topic.
pub(crate) async fn keep(address: (&str, u16), topic: &str) -> Result<(), Error> {
    let (client, mut events) = AsyncClient::builder(session(address, topic)).try_build()?;
    client.subscribe(topic, QoS::AtLeastOnce).await?;
    while !matches!(events.poll().await?, Event::Incoming(Packet::SubAck(_))) {}
    Ok(())
}

/// Receives what the broker has kept, and ends the session. Returns the number of messages.
pub(crate) async fn remove(address: (&str, u16), topic: &str) -> Result<u64, Error> {
    let (_client, mut events) = AsyncClient::builder(session(address, topic)).try_build()?;
    let mut messages = 0;
    while let Ok(event) = tokio::time::timeout(QUIET, events.poll()).await {
        messages += u64::from(matches!(event?, Event::Incoming(Packet::Publish(_))));
    }
    // A clean start ends the session.
    let mut options = session(address, topic);
    options.set_session_mode(SessionMode::Clean);
    let (_client, events) = AsyncClient::builder(options).try_build()?;
    connected(events).await?;
    Ok(messages)
}

fn session(address: (&str, u16), topic: &str) -> MqttOptions {
    let mut options = MqttOptions::new(topic, Broker::tcp(address.0, address.1));
    options.set_session_mode(SessionMode::Persistent);
    options.set_broker_session_resume_policy(BrokerSessionResumePolicy::AllowBrokerOnly);
    options.set_unlimited_incoming_packet_size();
    options
}

async fn connected(mut events: EventLoop) -> Result<EventLoop, Error> {
    while !matches!(events.poll().await?, Event::Incoming(Packet::ConnAck(_))) {}
    Ok(events)
}

async fn drive(mut events: EventLoop) {
    while events.poll().await.is_ok() {}
}

//! The suite every sink passes, with QoS 1 and 2.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use postrider::BoxFuture;
use postrider::sink::Sink;
use postrider_sinks::mqtt::Qos;
use postrider_testkit::conformance::sink::cases::an_outage_counts_against_no_message_and_delivery_resumes;
use postrider_testkit::conformance::sink::{Hook, Seen, SinkUnderTest};
use postrider_testkit::servers::mosquitto::{Mosquitto, Received, shared};

use super::topic::{config, name, open};

const QOS: [Qos; 2] = [Qos::AtLeastOnce, Qos::ExactlyOnce];

/// A topic on the shared broker; without a broker, a sink that stores nothing.
struct Fixture<const QOS_2: bool> {
    broker: Option<&'static Mosquitto>,
    topic: String,
    sink: Arc<dyn Sink>,
}

impl<const QOS_2: bool> SinkUnderTest for Fixture<QOS_2> {
    async fn fresh() -> Self {
        let topic = name("conformance");
        let Some(broker) = shared() else {
            return Self { broker: None, topic, sink: Arc::new(postrider_sinks::Null::new()) };
        };
        broker.subscribe(&topic, &topic);
        let config = config(broker).topic(&topic).qos(QOS[usize::from(QOS_2)]).message_bytes_max(2 << 20);
        Self { broker: Some(broker), topic, sink: open(&config) }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::clone(&self.sink)
    }

    fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>> {
        let Some(broker) = self.broker else { return Box::pin(std::future::ready(Hook::NotSupported)) };
        Box::pin(async { Hook::Done(broker.receive(&self.topic).into_iter().map(seen).collect()) })
    }

    /// Larger than the configured limit.
    fn refused_body(&self) -> Hook<Bytes> {
        if self.broker.is_some() { Hook::Done(vec![b'x'; 2 << 20].into()) } else { Hook::NotSupported }
    }
}

/// A private broker that can be stopped; it writes its sessions to disk when it is.
struct Stoppable {
    broker: Option<(Mosquitto, Arc<dyn Sink>)>,
    topic: String,
    /// A session gives its messages only once.
    received: Mutex<Vec<Received>>,
}

impl SinkUnderTest for Stoppable {
    async fn fresh() -> Self {
        let topic = name("stoppable");
        let broker = Mosquitto::private().map(|broker| {
            broker.subscribe(&topic, &topic);
            let sink: Arc<dyn Sink> = open(&config(&broker).topic(&topic));
            (broker, sink)
        });
        Self { broker, topic, received: Mutex::default() }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        match &self.broker {
            Some((_, sink)) => sink.clone(),
            None => Arc::new(postrider_sinks::Null::new()),
        }
    }

    fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>> {
        let all = self.broker.as_ref().map(|(broker, _)| {
            let mut received = self.received.lock().unwrap();
            received.extend(broker.receive(&self.topic));
            received.clone().into_iter().map(seen).collect()
        });
        Box::pin(std::future::ready(all.map_or(Hook::NotSupported, Hook::Done)))
    }

    fn outage(&self, down: bool) -> BoxFuture<'_, Hook<()>> {
        let Some((broker, _)) = &self.broker else {
            return Box::pin(std::future::ready(Hook::NotSupported));
        };
        if down {
            broker.stop()
        } else {
            broker.start()
        }
        Box::pin(std::future::ready(Hook::Done(())))
    }
}

fn seen(message: Received) -> Seen {
    let headers = message.properties.into_iter().map(|(name, value)| (name, decoded(&value))).collect();
    Seen { body: message.payload.into(), headers: Some(headers) }
}

/// As docs/src/sinks.md describes the values of user properties.
fn decoded(value: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), value.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            bytes.push(u8::from_str_radix(std::str::from_utf8(&after[..2]).unwrap(), 16).unwrap());
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).unwrap()
}

mod qos_1 {
    postrider_testkit::sink_conformance!(super::Fixture<false>);
}

mod qos_2 {
    postrider_testkit::sink_conformance!(super::Fixture<true>);
}

#[tokio::test]
async fn a_stopped_mqtt_broker_counts_against_no_message_and_delivery_resumes() {
    an_outage_counts_against_no_message_and_delivery_resumes::<Stoppable>().await;
}

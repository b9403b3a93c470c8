//! Destinations that a test takes down in several ways.

use std::path::Path;

use postrider_testkit::servers::endpoint::{Endpoint, SECRET};
use postrider_testkit::servers::kafka::Kafka;
use postrider_testkit::servers::mosquitto::{Listener, Mosquitto};
use postrider_testkit::servers::redis::Redis;

use super::check::{Arrived, check};

/// A real server, and the sink for it.
pub(crate) trait Destination {
    /// The section of the configuration.
    fn sink(&self) -> String;
    fn stop(&self);
    fn kill(&self);
    fn start(&self);
    fn pause(&self);
    fn resume(&self);
    /// The output of the checker in Python, or its objection.
    fn check(&self, written: &Path, duplicates_max: u64) -> Result<String, String>;
}

/// A topic of a Kafka server.
pub(crate) struct Topic {
    pub(crate) kafka: Kafka,
    pub(crate) name: &'static str,
    pub(crate) transactional: bool,
}

impl Topic {
    /// Created on its own server. `None` without such a server; prints the reason.
    pub(crate) fn create(name: &'static str, partitions: u16, transactional: bool) -> Option<Self> {
        let kafka = Kafka::private()?;
        kafka.create_topic(name, partitions, &[]);
        Some(Self { kafka, name, transactional })
    }
}

impl Destination for Topic {
    fn sink(&self) -> String {
        let (brokers, topic, transactional) = (self.kafka.brokers(), self.name, self.transactional);
        format!(
            "[sink.kafka]\ntype = 'kafka'\nbrokers = '{brokers}'\ntopic = '{topic}'\nencoder = 'plain'\n\
             delivery_timeout = '2s'\ncompression = 'lz4'\ntransactional = {transactional}\n"
        )
    }

    fn stop(&self) {
        self.kafka.stop();
    }

    fn kill(&self) {
        self.kafka.kill();
    }

    fn start(&self) {
        self.kafka.start();
    }

    fn pause(&self) {
        self.kafka.pause();
    }

    fn resume(&self) {
        self.kafka.resume();
    }

    fn check(&self, written: &Path, duplicates_max: u64) -> Result<String, String> {
        let (brokers, packages) = (self.kafka.brokers(), self.kafka.packages());
        check(written, &Arrived::Kafka { brokers, topic: self.name, packages }, duplicates_max)
    }
}

/// A stream of a Redis server.
pub(crate) struct Stream {
    pub(crate) redis: Redis,
    pub(crate) name: &'static str,
    pub(crate) fencing: bool,
}

impl Destination for Stream {
    fn sink(&self) -> String {
        let (address, stream, fencing) = (self.redis.address(), self.name, self.fencing);
        format!(
            "[sink.redis]\ntype = 'redis'\naddress = '{address}'\nstream = '{stream}'\nencoder = 'plain'\n\
             timeout = '2s'\nconnect_timeout = '1s'\nfencing = {fencing}\n"
        )
    }

    fn stop(&self) {
        self.redis.stop();
    }

    fn kill(&self) {
        self.redis.kill();
    }

    fn start(&self) {
        self.redis.start();
    }

    fn pause(&self) {
        self.redis.pause();
    }

    fn resume(&self) {
        self.redis.resume();
    }

    fn check(&self, written: &Path, duplicates_max: u64) -> Result<String, String> {
        let (port, packages) = (self.redis.port(), self.redis.packages());
        check(written, &Arrived::Redis { port, stream: self.name, packages }, duplicates_max)
    }
}

/// A topic of an MQTT broker, and a session that keeps its messages.
pub(crate) struct MqttTopic {
    pub(crate) broker: Mosquitto,
    pub(crate) name: &'static str,
    pub(crate) qos: u8,
}

impl Destination for MqttTopic {
    fn sink(&self) -> String {
        let (address, topic, qos) = (self.broker.address(Listener::Plain), self.name, self.qos);
        format!(
            "[sink.mqtt]\ntype = 'mqtt'\naddress = '{address}'\ntopic = '{topic}'\nencoder = 'plain'\n\
             timeout = '2s'\nconnect_timeout = '1s'\nqos = '{qos}'\n"
        )
    }

    fn stop(&self) {
        self.broker.stop();
    }

    /// Stops it cleanly, too: a broker that is killed loses what it has in memory, also for subscribers.
    fn kill(&self) {
        self.broker.stop();
    }

    fn start(&self) {
        self.broker.start();
    }

    fn pause(&self) {
        self.broker.pause();
    }

    fn resume(&self) {
        self.broker.resume();
    }

    fn check(&self, written: &Path, duplicates_max: u64) -> Result<String, String> {
        let (port, packages) = (self.broker.port(Listener::Plain), self.broker.packages());
        check(written, &Arrived::Mqtt { port, session: self.name, packages }, duplicates_max)
    }
}

impl Destination for Endpoint {
    fn sink(&self) -> String {
        format!(
            "[sink.hook]\ntype = 'webhook'\nurl = 'http://127.0.0.1:{}/hook'\nsecret = '{SECRET}'\nencoder = 'plain'\n\
             timeout = '2s'\nallow_networks = ['127.0.0.1']\n",
            self.port()
        )
    }

    fn stop(&self) {
        Self::stop(self);
    }

    fn kill(&self) {
        Self::kill(self);
    }

    fn start(&self) {
        Self::start(self);
    }

    fn pause(&self) {
        Self::pause(self);
    }

    fn resume(&self) {
        Self::resume(self);
    }

    fn check(&self, written: &Path, duplicates_max: u64) -> Result<String, String> {
        check(written, &Arrived::Log(&self.file()), duplicates_max)
    }
}

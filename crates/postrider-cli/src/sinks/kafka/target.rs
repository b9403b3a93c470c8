//! The cluster of a Kafka sink.

use std::fmt;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use postrider::encode::cloudevents::Binding;
use postrider::sink::{Destinations, Sink};
use postrider::{BoxFuture, Code, Result};
use postrider_sinks::kafka::{Compression, Kafka, KafkaConfig, NewTopic, Sasl, Tls};

use crate::config::Problem;
use crate::config::settings::ConfigTable;
use crate::doctor::{Check, Subject};
use crate::sinks::{SinkUser, Target};

/// How long a broker may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(2);

const COMPRESSIONS: [(&str, Compression); 5] = [
    ("none", Compression::None),
    ("gzip", Compression::Gzip),
    ("snappy", Compression::Snappy),
    ("lz4", Compression::Lz4),
    ("zstd", Compression::Zstd),
];

#[derive(Debug, PartialEq)]
struct Cluster {
    /// Without the transactional id, which depends on the subscription.
    config: KafkaConfig,
    /// The prefix of the transactional id, if batches are transactions.
    transactional: Option<String>,
}

pub(super) fn read(table: &ConfigTable<'_>) -> Result<Arc<dyn Target>, Problem> {
    let mut config = KafkaConfig::new(table.required("brokers", table.text("brokers")?)?);
    config.client_id = table.required("client_id", table.text("client_id")?)?;
    config.topic = table.text("topic")?;
    config.compression = table.choice("compression", &COMPRESSIONS)?;
    config.delivery_timeout = table.duration("delivery_timeout")?;
    config.message_bytes_max = table.count("message_max")?;
    let partitions = table.optional_count("create_partitions")?;
    let replication = table.optional_count("create_replication")?;
    let topic = |name: String| {
        let mut topic = NewTopic::new(name);
        (topic.partitions, topic.replication) = (partitions, replication);
        topic
    };
    config.create_topics = table.list("create_topics")?.unwrap_or_default().into_iter().map(topic).collect();
    config.sasl = sasl(table)?;
    config.tls = tls(table)?;
    config.properties = table.map("properties")?.unwrap_or_default();
    let prefix = table.required("transactional_id", table.text("transactional_id")?)?;
    let transactional = table.bool("transactional")?.then_some(prefix);
    Ok(Arc::new(Cluster { config, transactional }))
}

fn sasl(table: &ConfigTable<'_>) -> Result<Option<Sasl>, Problem> {
    let password = table.secret("sasl_password")?;
    match (table.text("sasl_mechanism")?, table.text("sasl_username")?, password) {
        (None, None, None) => Ok(None),
        (Some(mechanism), Some(username), Some(password)) => {
            Ok(Some(Sasl::new(mechanism, username, password.expose_secret())))
        }
        _ => {
            let why = "sasl_mechanism, sasl_username and sasl_password must be set together";
            Err(table.table_problem(Code::ConfigValue, why))
        }
    }
}

fn tls(table: &ConfigTable<'_>) -> Result<Option<Tls>, Problem> {
    let key_password = table.secret("tls_key_password")?;
    let mut tls = Tls::default();
    tls.ca = table.path("tls_ca")?;
    tls.certificate = table.path("tls_certificate")?;
    tls.key = table.path("tls_key")?;
    tls.key_password = key_password.map(|password| password.expose_secret().to_owned());
    let given = tls.ca.is_some() || tls.certificate.is_some() || tls.key.is_some();
    if !table.bool("tls")? && given {
        return Err(table.problem("tls", Code::ConfigValue, "is false, but certificates are configured"));
    }
    Ok(table.bool("tls")?.then_some(tls))
}

impl Target for Cluster {
    /// One transactional id per outbox and subscription: a relay that takes over a subscription fences its previous
    /// owner, and no other relay.
    fn open(&self, user: &SinkUser<'_>) -> Result<Arc<dyn Sink>> {
        let mut config = self.config.clone();
        config.transactional_id = self
            .transactional
            .as_ref()
            .map(|prefix| format!("{prefix}.{}.{}", user.outbox, user.subscription));
        Ok(Arc::new(Kafka::open(&config)?))
    }

    fn is_shared(&self) -> bool {
        self.transactional.is_none()
    }

    fn destinations(&self) -> Destinations {
        if self.config.topic.is_some() { Destinations::Fixed } else { Destinations::Names }
    }

    fn binding(&self) -> Binding {
        Binding::Kafka
    }

    /// Connects to the first broker that accepts a connection, and asks the cluster for the topic.
    fn check<'a>(&'a self, subject: &'a mut Subject<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let accepts = |broker: &&str| {
                let addresses = broker.to_socket_addrs().into_iter().flatten();
                addresses.into_iter().any(|address| TcpStream::connect_timeout(&address, CONNECT_MAX).is_ok())
            };
            let check = Check::SinkReachable;
            let Some(broker) = self.config.brokers.split(',').map(str::trim).find(accepts) else {
                return subject.fail_with(
                    check,
                    format!("{self}: no broker accepts connections"),
                    "check `brokers`, that the cluster is running, and that its port is reachable from here",
                );
            };
            let topic = self.config.topic.as_deref();
            match Kafka::problem(&self.config).await {
                Ok(None) => {
                    let topic = topic.map(|topic| format!(", topic {topic:?} can be used"));
                    let topic = topic.unwrap_or_default();
                    subject.ok(check, format!("kafka, {broker} accepts connections{topic}"));
                }
                Ok(Some(problem)) => subject.fail_with(
                    check,
                    format!("{self}: {problem}"),
                    "create the topic, correct `topic`, or check the user, its password and its rights",
                ),
                Err(error) => subject.fail(check, error.one_line()),
            }
        })
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kafka {}", self.config.brokers)
    }
}

//! `[sink.NAME]` with `type = "kafka"`

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use postrider::Code;

use super::ConfigTable;
use crate::config::environment::Environment;
use crate::config::problem::Problem;
use crate::config::secret::Secret;

/// A Kafka cluster and how to speak to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaSettings {
    /// Some of its brokers.
    pub brokers: String,
    /// The topic of all events, if it is one.
    pub topic: Option<String>,
    /// What brokers call this client.
    pub client_id: String,
    /// How batches are compressed, in Kafka's word.
    pub compression: String,
    /// How long the client tries.
    pub delivery_timeout: Duration,
    /// The largest message.
    pub message_bytes_max: usize,
    /// The beginning of the transactional id, if batches are transactions.
    pub transactional: Option<String>,
    /// Topics to create.
    pub create_topics: Vec<String>,
    /// Their partitions.
    pub create_partitions: Option<u16>,
    /// On how many brokers they are.
    pub create_replication: Option<u16>,
    /// Name and password.
    pub sasl: Option<SaslSettings>,
    /// Encryption.
    pub tls: Option<TlsSettings>,
    /// Other settings of the client.
    pub properties: BTreeMap<String, String>,
}

/// Name and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslSettings {
    /// How they are shown to the broker.
    pub mechanism: String,
    /// The name.
    pub username: String,
    /// The password.
    pub password: Secret,
}

/// Encryption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// Who vouches for the brokers.
    pub ca: Option<PathBuf>,
    /// Our certificate.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// The password of the key.
    pub key_password: Option<Secret>,
}

impl KafkaSettings {
    pub(super) fn read(table: &ConfigTable<'_>, environment: &Environment) -> Result<Self, Problem> {
        let transactional_id = table.required("transactional_id", table.text("transactional_id")?)?;
        Ok(Self {
            brokers: table.required("brokers", table.text("brokers")?)?,
            topic: table.text("topic")?,
            client_id: table.required("client_id", table.text("client_id")?)?,
            compression: table.required("compression", table.text("compression")?)?,
            delivery_timeout: table.duration("delivery_timeout")?,
            message_bytes_max: table.count("message_max")?,
            transactional: table.bool("transactional")?.then_some(transactional_id),
            create_topics: table.list("create_topics")?.unwrap_or_default(),
            create_partitions: table.optional_count("create_partitions")?,
            create_replication: table.optional_count("create_replication")?,
            sasl: sasl(table, environment)?,
            tls: tls(table, environment)?,
            properties: table.map("properties")?.unwrap_or_default(),
        })
    }
}

fn sasl(table: &ConfigTable<'_>, environment: &Environment) -> Result<Option<SaslSettings>, Problem> {
    let password = table.secret("sasl_password", environment)?;
    match (table.text("sasl_mechanism")?, table.text("sasl_username")?, password) {
        (None, None, None) => Ok(None),
        (Some(mechanism), Some(username), Some(password)) => {
            Ok(Some(SaslSettings { mechanism, username, password }))
        }
        _ => {
            let why = "sasl_mechanism, sasl_username and sasl_password must be set together";
            Err(table.table_problem(Code::ConfigValue, why))
        }
    }
}

fn tls(table: &ConfigTable<'_>, environment: &Environment) -> Result<Option<TlsSettings>, Problem> {
    let tls = TlsSettings {
        ca: table.path("tls_ca")?,
        certificate: table.path("tls_certificate")?,
        key: table.path("tls_key")?,
        key_password: table.secret("tls_key_password", environment)?,
    };
    let given = tls.ca.is_some() || tls.certificate.is_some() || tls.key.is_some();
    if !table.bool("tls")? && given {
        return Err(table.problem("tls", Code::ConfigValue, "is false, but certificates are configured"));
    }
    Ok(table.bool("tls")?.then_some(tls))
}

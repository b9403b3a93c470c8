//! The settings of the service, from environment variables.

use std::env::{self, VarError};
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};

/// Every setting has a default for a machine with PostgreSQL and Kafka.
pub(crate) struct Config {
    /// `DATABASE_URL`
    pub(crate) database_url: String,
    /// `KAFKA_BROKERS`: `host:port,host:port`.
    pub(crate) kafka_brokers: String,
    /// `KAFKA_TOPIC`: it must exist.
    pub(crate) kafka_topic: String,
    /// `LISTEN`: the address of the HTTP server.
    pub(crate) listen: SocketAddr,
    /// `LEASE_SECONDS`: after this time another instance takes over from one that crashed.
    pub(crate) lease: Duration,
}

impl Config {
    pub(crate) fn from_env() -> Result<Self> {
        Ok(Self {
            database_url: variable("DATABASE_URL", "postgres://postgres@127.0.0.1/orders")?,
            kafka_brokers: variable("KAFKA_BROKERS", "127.0.0.1:9092")?,
            kafka_topic: variable("KAFKA_TOPIC", "orders")?,
            listen: variable("LISTEN", "127.0.0.1:8080")?,
            lease: Duration::from_secs(variable("LEASE_SECONDS", "15")?),
        })
    }
}

/// The error names the variable, and not its value: it may contain a password.
fn variable<T: FromStr>(name: &str, otherwise: &str) -> Result<T> {
    let value = match env::var(name) {
        Err(VarError::NotPresent) => otherwise.to_owned(),
        value => value.with_context(|| format!("{name} is not Unicode"))?,
    };
    value.parse().ok().with_context(|| format!("{name} is not valid; an example: {otherwise}"))
}

//! `[outbox.NAME]`

use std::sync::Arc;

use postrider::relay::Retention;
use postrider::store::AfterFailover;
use postrider::{Code, Limits};

use super::{Read, rows};
use crate::config::environment::Environment;
use crate::config::problem::Problem;
use crate::database::{self, Address, Database, PoolerChoice, Refused};

const FAILOVERS: [(&str, AfterFailover); 2] =
    [("halt", AfterFailover::Halt), ("check", AfterFailover::Check)];

const POOLERS: [(&str, PoolerChoice); 3] = [
    ("detect", PoolerChoice::Detect),
    ("transaction", PoolerChoice::Transaction),
    ("none", PoolerChoice::None),
];

/// A database that holds events.
#[derive(Debug, Clone)]
pub struct OutboxSettings {
    /// Which.
    pub database: Arc<dyn Database>,
    /// What its writer accepts.
    pub limits: Limits,
    /// How long its delivered events stay.
    pub retention: Retention,
}

impl OutboxSettings {
    pub(super) fn read(read: &Read<'_>, environment: &Environment) -> Result<Self, Problem> {
        let address = Address {
            url: read.needed("url", read.secret("url", environment)?)?,
            password: read.secret("password", environment)?,
            schema: read.text("schema")?,
            tls_root_cert: read.path("tls_root_cert")?,
            tls_client_cert: read.path("tls_client_cert")?,
            tls_client_key: read.path("tls_client_key")?,
            after_failover: read.choice("after_failover", &FAILOVERS)?,
            pooler: read.choice("pooler", &POOLERS)?,
            listen: read.bool("listen")?,
            rows: rows::read(read)?,
        };
        let database = database::read(&address)
            .map_err(|Refused { key, why }| read.problem(key, Code::ConfigValue, &why))?;
        let mut limits = Limits::default();
        limits.text_bytes_max = read.count("text_max")?;
        limits.header_name_bytes_max = read.count("header_name_max")?;
        limits.header_value_bytes_max = read.count("header_value_max")?;
        limits.headers_max = read.count("headers_max")?;
        limits.payload_bytes_max = read.count("payload_max")?;
        limits.events_per_call_max = read.count("events_per_call_max")?;
        let retention = Retention { keep: read.retention("retention")?, ..Retention::default() };
        Ok(Self { database, limits, retention })
    }
}

//! `[outbox.NAME]`

use std::sync::Arc;

use postrider::layout::RowTable;
use postrider::relay::Retention;
use postrider::store::{AfterFailover, RetentionScope};
use postrider::{Code, Limits};

use super::{Read, rows};
use crate::config::environment::Environment;
use crate::config::problem::Problem;
use crate::config::value::Keep;
use crate::database::{self, Address, Database, PoolerChoice, Refused};

const FAILOVERS: [(&str, AfterFailover); 2] =
    [("halt", AfterFailover::Halt), ("check", AfterFailover::Check)];

const SCOPES: [(&str, RetentionScope); 2] = [("own", RetentionScope::Own), ("all", RetentionScope::All)];

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
        let retention = retention(read, database.rows())?;
        Ok(Self { database, limits, retention })
    }
}

/// How long delivered events of an outbox are kept.
fn retention(read: &Read<'_>, table: Option<&RowTable>) -> Result<Retention, Problem> {
    let scope = read.choice("retention_scope", &SCOPES)?;
    let retention = match read.retention("retention")? {
        None => Retention::default_for(table),
        Some(Keep::Forever) => Retention::FOREVER,
        Some(Keep::For(time)) => Retention::of(time),
        Some(Keep::UntilExpiry) => Retention::EXPIRES_AT,
    };
    let retention = Retention { scope, ..retention };
    match retention.check(table) {
        Ok(()) => Ok(retention),
        Err(error) => Err(read.problem("retention", Code::ConfigValue, error.message())),
    }
}

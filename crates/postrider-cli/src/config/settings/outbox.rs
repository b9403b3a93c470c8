//! `[outbox.NAME]`

use std::sync::Arc;

use postrider::layout::RowTable;
use postrider::relay::Retention;
use postrider::store::{AfterFailover, RetentionScope};
use postrider::{Code, Limits};

use super::{ConfigTable, rows};
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

/// A database with an outbox.
#[derive(Debug, Clone)]
pub struct OutboxSettings {
    /// The database.
    pub database: Arc<Database>,
    /// Limits on the events that are written.
    pub limits: Limits,
    /// How long delivered events are kept.
    pub retention: Retention,
}

impl OutboxSettings {
    pub(super) fn read(table: &ConfigTable<'_>) -> Result<Self, Problem> {
        let address = Address {
            url: table.required("url", table.secret("url")?)?,
            password: table.secret("password")?,
            schema: table.text("schema")?,
            tls_root_cert: table.path("tls_root_cert")?,
            tls_client_cert: table.path("tls_client_cert")?,
            tls_client_key: table.path("tls_client_key")?,
            after_failover: table.choice("after_failover", &FAILOVERS)?,
            pooler: table.choice("pooler", &POOLERS)?,
            listen: table.bool("listen")?,
            rows: rows::read(table)?,
        };
        let database = database::read(&address)
            .map_err(|Refused { key, why }| table.problem(key, Code::ConfigValue, &why))?;
        let mut limits = Limits::default();
        limits.text_bytes_max = table.count("text_max")?;
        limits.header_name_bytes_max = table.count("header_name_max")?;
        limits.header_value_bytes_max = table.count("header_value_max")?;
        limits.headers_max = table.count("headers_max")?;
        limits.payload_bytes_max = table.count("payload_max")?;
        limits.events_per_call_max = table.count("events_per_call_max")?;
        let retention = retention(table, database.admin().row_table())?;
        Ok(Self { database: Arc::new(database), limits, retention })
    }
}

/// How long delivered events of an outbox are kept.
fn retention(table: &ConfigTable<'_>, rows: Option<&RowTable>) -> Result<Retention, Problem> {
    let scope = table.choice("retention_scope", &SCOPES)?;
    let retention = match table.retention("retention")? {
        None => Retention::default_for(rows),
        Some(Keep::Forever) => Retention::FOREVER,
        Some(Keep::For(time)) => Retention::keep_for(time),
        Some(Keep::UntilExpiry) => Retention::EXPIRES_AT,
    };
    let retention = retention.scope(scope);
    let retention = match table.optional_duration("inbox_retention")? {
        Some(keep) => retention.inbox_keep_for(keep),
        None => retention,
    };
    match retention.check(rows) {
        Ok(()) => Ok(retention),
        Err(error) if error.code() == Code::PolicyInvalid => {
            Err(table.problem("inbox_retention", Code::ConfigValue, error.message()))
        }
        Err(error) => Err(table.problem("retention", Code::ConfigValue, error.message())),
    }
}

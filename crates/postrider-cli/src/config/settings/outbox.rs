//! `[outbox.NAME]`

use std::sync::Arc;

use postrider::layout::{RowLayout, RowTable};
use postrider::relay::Retention;
use postrider::store::AfterFailover;
use postrider::{Code, Ident, Limits};

use super::Read;
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

const LAYOUTS: [(&str, Option<RowLayout>); 4] = [
    ("postrider", None),
    ("event_outbox", Some(RowLayout::EventOutbox)),
    ("outbox", Some(RowLayout::Outbox)),
    ("outbox_events", Some(RowLayout::OutboxEvents)),
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
            rows: rows(read)?,
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

/// The table with a state per row, if the layout is one of those.
fn rows(read: &Read<'_>) -> Result<Option<RowTable>, Problem> {
    let (table, schema) = (read.text("table")?, read.text("table_schema")?);
    let (attempts, timeout) =
        (read.count_if_given("max_attempts")?, read.duration_if_given("foreign_claim_timeout")?);
    let shared = read.bool("shared")?;
    let Some(layout) = read.choice("layout", &LAYOUTS)? else {
        let given = [
            ("table", table.is_some()),
            ("table_schema", schema.is_some()),
            ("max_attempts", attempts.is_some()),
            ("shared", shared),
            ("foreign_claim_timeout", timeout.is_some()),
        ];
        return match given.iter().find(|(_, given)| *given) {
            Some((key, _)) => {
                let why = "it is about a table with a state per row; give its `layout`";
                Err(read.problem(key, Code::ConfigValue, why))
            }
            None => Ok(None),
        };
    };
    let wrong =
        |key: &'static str| move |error: postrider::Error| read.problem(key, Code::ConfigValue, error.what());
    let mut rows = RowTable::new(layout).map_err(wrong("layout"))?;
    if let Some(name) = table {
        rows = rows.named(Ident::new(&name).map_err(wrong("table"))?);
    }
    if let Some(name) = schema {
        rows = rows.in_schema(Ident::new(&name).map_err(wrong("table_schema"))?);
    }
    if let Some(attempts) = attempts {
        rows = rows.max_attempts(attempts);
    }
    if timeout.is_some() && layout != RowLayout::OutboxEvents {
        let why = "only outbox_events says which rows are at work";
        return Err(read.problem("foreign_claim_timeout", Code::ConfigValue, why));
    }
    Ok(Some(rows.shared(shared).foreign_claim_timeout(timeout)))
}

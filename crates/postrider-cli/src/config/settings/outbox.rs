//! `[outbox.NAME]`

use std::sync::Arc;

use postrider::layout::RowTable;
use postrider::relay::Retention;
use postrider::store::{AfterFailover, RetentionScope};
use postrider::{Code, Limits, Shard};

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

/// Separates the name of an outbox from its shard. No configured name contains it.
const SHARD_MARK: char = ':';

/// The configured name of an outbox or shard: `shop` for `shop:1.0`.
pub fn configured_name(outbox: &str) -> &str {
    outbox.split(SHARD_MARK).next().unwrap_or(outbox)
}

/// A database with an outbox, or one of its shards.
#[derive(Debug, Clone)]
pub struct OutboxSettings {
    /// The shard, if the outbox has several.
    pub shard: Option<Shard>,
    /// The database.
    pub database: Arc<Database>,
    /// Limits on the events that are written.
    pub limits: Limits,
    /// How long delivered events are kept.
    pub retention: Retention,
}

impl OutboxSettings {
    /// The outbox, or each of its shards, by name.
    pub(super) fn read(table: &ConfigTable<'_>) -> Result<Vec<(String, Self)>, Problem> {
        let (name, urls) = (table.name(), table.urls("shards")?);
        let address = Self::address(table)?;
        let mut outbox = Self::at(table, &address, "url")?;
        if urls.is_empty() {
            return Ok(vec![(name, outbox)]);
        }
        outbox.shard = Some(Shard::DEFAULT);
        let mut all = vec![(format!("{name}{SHARD_MARK}{}", Shard::DEFAULT), outbox)];
        for (text, url) in urls {
            let wrong = |why: &str| table.problem("shards", Code::ConfigValue, why);
            let shard =
                text.parse::<Shard>().map_err(|error| wrong(error.message()).with_hint(error.hint()))?;
            if shard == Shard::DEFAULT {
                return Err(wrong("shard 0.0 is the database of `url`").with_hint("use another number"));
            }
            let mut outbox = Self::at(table, &Address { url, ..address.clone() }, "shards")
                .map_err(|problem| problem.about(&format!("shard {text}")))?;
            let location = outbox.database.location();
            if let Some((other, _)) = all.iter().find(|(_, other)| other.database.location() == location) {
                let why = format!("shard {text} is the same database as {other}: {location}");
                return Err(wrong(&why).with_hint("each shard is a database of its own"));
            }
            outbox.shard = Some(shard);
            all.push((format!("{name}{SHARD_MARK}{shard}"), outbox));
        }
        Ok(all)
    }

    fn address(table: &ConfigTable<'_>) -> Result<Address, Problem> {
        Ok(Address {
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
        })
    }

    /// The outbox at this address, whose URL is the value of this key.
    fn at(table: &ConfigTable<'_>, address: &Address, url_key: &str) -> Result<Self, Problem> {
        let database = database::read(address).map_err(|Refused { key, why }| {
            let key = if key == "url" { url_key } else { key };
            table.problem(key, Code::ConfigValue, &why)
        })?;
        let mut limits = Limits::default();
        limits.text_bytes_max = table.count("text_max")?;
        limits.header_name_bytes_max = table.count("header_name_max")?;
        limits.header_value_bytes_max = table.count("header_value_max")?;
        limits.headers_max = table.count("headers_max")?;
        limits.payload_bytes_max = table.count("payload_max")?;
        limits.events_per_call_max = table.count("events_per_call_max")?;
        let retention = retention(table, database.admin().row_table())?;
        Ok(Self { shard: None, database: Arc::new(database), limits, retention })
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

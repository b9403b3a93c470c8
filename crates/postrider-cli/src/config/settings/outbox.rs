//! `[outbox.NAME]`

use postrider::relay::Retention;
use postrider::store::AfterFailover;
use postrider::{Code, Limits};

use super::{Database, Read};
use crate::config::environment::Environment;
use crate::config::problem::Problem;

/// A database that holds events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxSettings {
    /// Which.
    pub database: Database,
    /// What its writer accepts.
    pub limits: Limits,
    /// How long its delivered events stay.
    pub retention: Retention,
    /// What a failover of the database means. For PostgreSQL.
    pub after_failover: AfterFailover,
}

impl OutboxSettings {
    pub(super) fn read(read: &Read<'_>, environment: &Environment) -> Result<Self, Problem> {
        let url = read.secret("url", environment)?;
        let database = Database::parse(&url).map_err(|why| read.problem("url", Code::ConfigValue, why))?;
        let mut limits = Limits::default();
        limits.text_bytes_max = read.count("text_max")?;
        limits.header_name_bytes_max = read.count("header_name_max")?;
        limits.header_value_bytes_max = read.count("header_value_max")?;
        limits.headers_max = read.count("headers_max")?;
        limits.payload_bytes_max = read.count("payload_max")?;
        limits.events_per_call_max = read.count("events_per_call_max")?;
        let retention = Retention { keep: read.retention("retention")?, ..Retention::default() };
        let choices = [("halt", AfterFailover::Halt), ("check", AfterFailover::Check)];
        let after_failover = read.choice("after_failover", &choices)?;
        Ok(Self { database, limits, retention, after_failover })
    }
}

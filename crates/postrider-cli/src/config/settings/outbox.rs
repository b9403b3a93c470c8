//! `[outbox.NAME]`

use std::sync::Arc;

use postrider::{Code, Limits};

use super::Read;
use crate::config::environment::Environment;
use crate::config::problem::Problem;
use crate::database::{self, Address, Database, Refused};

/// A database that holds events.
#[derive(Debug, Clone)]
pub struct OutboxSettings {
    /// Which.
    pub database: Arc<dyn Database>,
    /// What its writer accepts.
    pub limits: Limits,
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
        Ok(Self { database, limits })
    }
}

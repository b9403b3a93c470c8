//! `[sink.NAME]` of the type `webhook`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use postrider::{Code, Result as Outcome};
use postrider_sinks::webhook::{Key, WebhookConfig};

use super::ConfigTable;
use crate::config::environment::Environment;
use crate::config::problem::Problem;
use crate::config::secret::Secret;

/// Where requests go, who signs them, and what they may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    /// The address; without it, that of each event's route.
    pub url: Option<Secret>,
    /// Secrets that sign, the new one first.
    pub secrets: Vec<Secret>,
    /// Value of the header of that name.
    pub authorization: Option<Secret>,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// How long one request may take.
    pub timeout: Duration,
    /// Requests to one address at the same time.
    pub concurrency: usize,
    /// Lets requests go to special addresses.
    pub allow_private: bool,
    /// Lets requests go to special addresses of these networks.
    pub allow_networks: Vec<String>,
    /// Hosts that events may choose.
    pub allow_hosts: Vec<String>,
    /// Lets requests go unencrypted.
    pub allow_http: bool,
    /// Certificates to trust as well.
    pub ca_file: Option<PathBuf>,
}

impl WebhookSettings {
    pub(super) fn read(table: &ConfigTable<'_>, environment: &Environment) -> Result<Self, Problem> {
        let mut secrets = Vec::new();
        for key in ["secret", "old_secret"] {
            let Some(secret) = table.secret(key, environment)? else { continue };
            Key::parse(secret.expose_secret())
                .map_err(|error| table.problem(key, Code::ConfigSecret, error.message()))?;
            secrets.push(secret);
        }
        let settings = Self {
            url: table.secret("url", environment)?,
            secrets,
            authorization: table.secret("authorization", environment)?,
            headers: table.map("headers")?.unwrap_or_default(),
            timeout: table.duration("timeout")?,
            concurrency: table.count("concurrency")?,
            allow_private: table.bool("allow_private")?,
            allow_networks: table.list("allow_networks")?.unwrap_or_default(),
            allow_hosts: table.list("allow_hosts")?.unwrap_or_default(),
            allow_http: table.bool("allow_http")?,
            ca_file: table.path("ca_file")?,
        };
        let checked = settings.config().and_then(|config| config.check());
        checked.map_err(|error| table.table_problem(Code::ConfigValue, error.message()))?;
        Ok(settings)
    }

    /// Settings of the sink.
    ///
    /// # Errors
    /// As [`Key::parse`].
    pub fn config(&self) -> Outcome<WebhookConfig> {
        let mut config = match &self.url {
            Some(url) => WebhookConfig::new(url.expose_secret()),
            None => WebhookConfig::routed(),
        };
        for secret in &self.secrets {
            config = config.with_secret(secret.expose_secret())?;
        }
        config.authorization = self.authorization.as_ref().map(|token| token.expose_secret().to_owned());
        config.headers = self.headers.clone();
        config.timeout = self.timeout;
        config.concurrency = self.concurrency;
        config.allow_private = self.allow_private;
        config.allow_networks = self.allow_networks.clone();
        config.allow_hosts = self.allow_hosts.clone();
        config.allow_http = self.allow_http;
        config.ca_file = self.ca_file.clone();
        Ok(config)
    }

    /// Whether a batch that is begun has time to end before the relay gives it up.
    pub(super) fn fits_into(&self, publish_timeout: Duration) -> bool {
        publish_timeout > self.timeout + self.timeout / 2
    }
}

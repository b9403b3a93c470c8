//! The endpoints of a webhook sink.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postrider::sink::{Destinations, Sink};
use postrider::{BoxFuture, Code, Result};
use postrider_sinks::webhook::{Key, Webhook, WebhookConfig};

use crate::config::Problem;
use crate::config::settings::ConfigTable;
use crate::doctor::{Check, Subject};
use crate::sinks::{SinkUser, Target};

#[derive(Debug, PartialEq)]
struct Endpoints(WebhookConfig);

pub(super) fn read(table: &ConfigTable<'_>) -> Result<Arc<dyn Target>, Problem> {
    let mut config = match table.secret("url")? {
        Some(url) => WebhookConfig::new(url.expose_secret()),
        None => WebhookConfig::routed(),
    };
    // Both keys sign; the new one first.
    for key in ["secret", "old_secret"] {
        let Some(secret) = table.secret(key)? else { continue };
        let parsed = Key::parse(secret.expose_secret());
        config.keys.push(parsed.map_err(|error| table.problem(key, Code::ConfigSecret, error.message()))?);
    }
    config.authorization = table.secret("authorization")?.map(|token| token.expose_secret().to_owned());
    config.headers = table.map("headers")?.unwrap_or_default();
    config.timeout = table.duration("timeout")?;
    config.concurrency = table.count("concurrency")?;
    config.allow_private = table.bool("allow_private")?;
    config.allow_networks = table.list("allow_networks")?.unwrap_or_default();
    config.allow_hosts = table.list("allow_hosts")?.unwrap_or_default();
    config.allow_http = table.bool("allow_http")?;
    config.ca_file = table.path("ca_file")?;
    config.check().map_err(|error| table.table_problem(Code::ConfigValue, error.message()))?;
    Ok(Arc::new(Endpoints(config)))
}

impl Target for Endpoints {
    fn open(&self, _: &SinkUser<'_>) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(Webhook::open(&self.0)?))
    }

    fn destinations(&self) -> Destinations {
        self.0.destinations()
    }

    /// If the relay stops waiting for a batch while its requests are in flight, the outcome of the whole batch is
    /// unknown.
    fn publish_timeout_above(&self) -> Duration {
        self.0.timeout + self.0.timeout / 2
    }

    /// Connects without sending a request, because the endpoint would take it for an event.
    fn check<'a>(&'a self, subject: &'a mut Subject<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let webhook = match Webhook::open(&self.0) {
                Ok(webhook) => webhook,
                Err(error) => {
                    return subject.fail(Check::SinkReachable, format!("{self}: {}", error.message()));
                }
            };
            match webhook.probe().await {
                Ok(Some(what)) => subject.ok(Check::EndpointReachable, what),
                Ok(None) => {
                    let what = "webhook without `url`: routing selects the endpoints, so none was checked";
                    subject.ok(Check::EndpointReachable, what);
                }
                Err(error) => subject.fail(Check::EndpointReachable, error.message()),
            }
        })
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "webhook {}", self.0.redacted_url())
    }
}

//! The webhook sink against a real HTTP server on loopback.

#![cfg(test)]

mod answers;
mod conformance;
mod faults;
mod relay;
mod routed;
mod server;
mod signed;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use postrider_sinks::webhook::{Webhook, WebhookConfig};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Settings for a server on this machine.
fn config(url: impl Into<String>) -> WebhookConfig {
    let mut config = WebhookConfig::new(url);
    config.allow_networks = vec!["127.0.0.0/8".into()];
    config
}

fn sink(server: &server::Server) -> Arc<Webhook> {
    Arc::new(Webhook::open(&config(server.url()).secret(SECRET).unwrap()).unwrap())
}

/// A sink with a short timeout.
fn hasty(server: &server::Server) -> Webhook {
    let mut config = config(server.url());
    config.timeout = Duration::from_millis(200);
    Webhook::open(&config).unwrap()
}

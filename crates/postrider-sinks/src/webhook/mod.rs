//! Sends events as HTTP POST requests, signed according to [Standard Webhooks](https://www.standardwebhooks.com), and
//! verifies such requests on the receiving side.

#[cfg(feature = "webhook")]
mod address;
#[cfg(feature = "webhook")]
mod client;
#[cfg(feature = "webhook")]
mod config;
#[cfg(feature = "webhook")]
mod endpoint;
#[cfg(feature = "webhook")]
mod error;
#[cfg(feature = "webhook")]
mod guard;
#[cfg(feature = "webhook")]
mod hosts;
mod key;
#[cfg(feature = "webhook")]
mod message;
#[cfg(feature = "webhook")]
mod probe;
#[cfg(feature = "webhook")]
mod resolve;
#[cfg(feature = "webhook")]
mod response;
#[cfg(feature = "webhook")]
mod retry_after;
#[cfg(feature = "webhook")]
mod routed;
#[cfg(feature = "webhook")]
mod tls;
mod verify;

#[cfg(feature = "webhook")]
pub use client::Webhook;
#[cfg(feature = "webhook")]
pub use config::WebhookConfig;
pub use key::Key;
/// TLS as webhooks use it: ring, and the operating system's certificates.
#[cfg(feature = "webhook")]
#[doc(hidden)]
pub use tls::client as tls_client;
pub use verify::{Unverified, Verifier, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};

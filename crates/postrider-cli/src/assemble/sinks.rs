//! The sinks of the configuration, opened.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::sink::{Capabilities, Message, Outcome, Sink};
use postrider::{BoxFuture, Result};
use postrider_sinks::file::{File, FileConfig};
use postrider_sinks::webhook::Webhook;
use postrider_sinks::{Null, Stdout};

use super::kafka;
use crate::config::Settings;
use crate::config::settings::{SinkSettings, SubscriptionSettings, Target};

/// Open sinks by what they write to. Subscriptions with the same target share one, so that lines of two do not
/// mix on standard output; but one with transactions is its subscription's own.
pub(super) struct Sinks(Vec<Opened>);

struct Opened {
    target: Target,
    /// The transactional id, where there is one.
    transactional_id: Option<String>,
    sink: Arc<dyn Sink>,
    users: Arc<AtomicUsize>,
}

impl Sinks {
    /// Opens those that a subscription needs.
    pub(super) fn open(settings: &Settings) -> Result<Self> {
        let mut sinks: Vec<Opened> = Vec::new();
        for (name, of) in &settings.subscriptions {
            let Some(SinkSettings { target, .. }) = settings.sinks.get(&of.sink) else { continue };
            let id = transactional_id(target, of, name);
            if !sinks.iter().any(|opened| opened.is(target, id.as_deref())) {
                let sink = open(target, id.as_deref())?;
                let target = target.clone();
                sinks.push(Opened { target, transactional_id: id, sink, users: Arc::default() });
            }
        }
        Ok(Self(sinks))
    }

    /// A share of the sink that writes there.
    pub(super) fn get(&self, name: &str, of: &SubscriptionSettings, target: &Target) -> Option<Shared> {
        let id = transactional_id(target, of, name);
        let Opened { sink, users, .. } = self.0.iter().find(|opened| opened.is(target, id.as_deref()))?;
        users.fetch_add(1, Ordering::Relaxed);
        Some(Shared { sink: sink.clone(), users: users.clone() })
    }
}

impl Opened {
    fn is(&self, target: &Target, transactional_id: Option<&str>) -> bool {
        self.target == *target && self.transactional_id.as_deref() == transactional_id
    }
}

/// One id per outbox and subscription: the relay that takes a subscription over fences its last owner, and no other process.
fn transactional_id(target: &Target, of: &SubscriptionSettings, name: &str) -> Option<String> {
    let Target::Kafka(kafka) = target else { return None };
    kafka.transactional.as_ref().map(|prefix| format!("{prefix}.{}.{name}", of.outbox))
}

fn open(target: &Target, transactional_id: Option<&str>) -> Result<Arc<dyn Sink>> {
    Ok(match target {
        Target::File { path, rotate_bytes } => {
            let mut config = FileConfig::new(path);
            config.rotate_bytes = *rotate_bytes;
            Arc::new(File::open(&config)?)
        }
        Target::Stdout => Arc::new(Stdout::new()?),
        Target::Null => Arc::new(Null::new()),
        Target::Kafka(kafka) => kafka::open(kafka, transactional_id)?,
        Target::Webhook(settings) => Arc::new(Webhook::open(&settings.config()?)?),
    })
}

/// One user's share of a sink, which is closed when its last user closes.
pub(super) struct Shared {
    sink: Arc<dyn Sink>,
    users: Arc<AtomicUsize>,
}

impl Sink for Shared {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        self.sink.publish(batch)
    }

    fn take_over(&self, lease: Duration) -> BoxFuture<'_, Result<()>> {
        self.sink.take_over(lease)
    }

    fn capabilities(&self) -> Capabilities {
        self.sink.capabilities()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        match self.users.fetch_sub(1, Ordering::Relaxed) {
            1 => self.sink.close(),
            _ => Box::pin(std::future::ready(())),
        }
    }
}

impl fmt::Display for Target {
    /// For people: where events go, without a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => write!(f, "file {}", path.display()),
            Self::Stdout => f.write_str("standard output"),
            Self::Null => f.write_str("nowhere"),
            Self::Kafka(kafka) => write!(f, "kafka {}", kafka.brokers),
            Self::Webhook(settings) => {
                let to = settings.config().map_or_else(|_| "no address".into(), |config| config.shown());
                write!(f, "webhook {to}")
            }
        }
    }
}

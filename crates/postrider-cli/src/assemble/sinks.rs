//! The sinks of the configuration, opened.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider::sink::{Capabilities, Message, Outcome, Sink};
use postrider::{BoxFuture, Result};
use postrider_sinks::file::{File, FileConfig};
use postrider_sinks::webhook::Webhook;
use postrider_sinks::{Null, Stdout};

use crate::config::Settings;
use crate::config::settings::Target;

/// Open sinks by what they write to. Subscriptions with the same target share one, so that lines of two do not
/// mix on standard output.
pub(super) struct Sinks(Vec<Opened>);

struct Opened {
    target: Target,
    sink: Arc<dyn Sink>,
    users: Arc<AtomicUsize>,
}

impl Sinks {
    /// Opens those that a subscription needs.
    pub(super) fn open(settings: &Settings) -> Result<Self> {
        let mut sinks: Vec<Opened> = Vec::new();
        let needed = settings.subscriptions.values().filter_map(|of| settings.sinks.get(&of.sink));
        for target in needed.map(|sink| &sink.target) {
            if !sinks.iter().any(|opened| opened.target == *target) {
                sinks.push(Opened { target: target.clone(), sink: open(target)?, users: Arc::default() });
            }
        }
        Ok(Self(sinks))
    }

    /// A share of the sink that writes there.
    pub(super) fn get(&self, target: &Target) -> Option<Shared> {
        let Opened { sink, users, .. } = self.0.iter().find(|opened| opened.target == *target)?;
        users.fetch_add(1, Ordering::Relaxed);
        Some(Shared { sink: sink.clone(), users: users.clone() })
    }
}

fn open(target: &Target) -> Result<Arc<dyn Sink>> {
    Ok(match target {
        Target::File { path, rotate_bytes } => {
            let mut config = FileConfig::new(path);
            config.rotate_bytes = *rotate_bytes;
            Arc::new(File::open(&config)?)
        }
        Target::Stdout => Arc::new(Stdout::new()?),
        Target::Null => Arc::new(Null::new()),
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
            Self::Webhook(settings) => {
                let to = settings.config().map_or_else(|_| "no address".into(), |config| config.shown());
                write!(f, "webhook {to}")
            }
        }
    }
}

//! The configuration of a running relay: SIGHUP reads it again, and adds what is new.

use std::collections::BTreeSet;
use std::sync::Arc;

use postrider::{Error, Shard};

use crate::assemble::with_subscriptions;
use crate::config::settings::{OutboxSettings, configured_name};
use crate::config::{Effective, Problem, Settings, other_changes};
use crate::context::Context;

/// The configuration that a relay runs with.
pub(super) struct Running {
    effective: Effective,
    settings: Arc<Settings>,
}

impl Running {
    pub(super) fn read(context: &Context) -> Result<Self, Vec<Problem>> {
        let (effective, settings) = context.configuration()?;
        Ok(Self { effective, settings: Arc::new(settings) })
    }

    pub(super) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Reads the configuration again. If it only adds outboxes or shards, it applies from now on, and their names are
    /// returned. Otherwise this logs why not, and everything stays as it is.
    pub(super) fn reload(&mut self, context: &Context) -> Vec<String> {
        let new = match Self::read(context) {
            Ok(new) => new,
            Err(problems) => {
                for error in problems.into_iter().map(Error::from) {
                    tracing::error!(code = %error.code(), hint = error.hint(), "{}", error.one_line());
                }
                tracing::error!("the configuration has errors; the relay continues with the earlier one");
                return Vec::new();
            }
        };
        let changes = other_changes(&self.effective, &new.effective);
        if !changes.is_empty() {
            tracing::error!(
                changes = changes.join(", "),
                "the new configuration is not applied: a running relay only adds outboxes and shards; restart it for \
                 other changes"
            );
            return Vec::new();
        }
        let served: BTreeSet<_> = with_subscriptions(&self.settings).map(place).collect();
        let added = with_subscriptions(&new.settings).filter(|outbox| !served.contains(&place(*outbox)));
        let added: Vec<String> = added.map(|(name, _)| name.to_owned()).collect();
        match added.as_slice() {
            [] => tracing::info!("the configuration was read again; no outbox or shard is new"),
            names => tracing::info!(added = names.join(", "), "the configuration was read again"),
        }
        *self = new;
        added
    }
}

/// An outbox without shards is the first shard of the same outbox when it has some.
fn place((name, of): (&str, &OutboxSettings)) -> (String, Shard) {
    (configured_name(name).to_owned(), of.shard.unwrap_or(Shard::DEFAULT))
}

//! The outboxes and shards of a relay: those that it starts with, those that come up later, and those that are added.

use postrider::relay::{OutboxOptions, Relay, RelayHandle, Subscription};
use postrider::{Error, Result};

use crate::assemble::{NamedTasks, Opening, Sinks, Stores, served, with_subscriptions};
use crate::config::Settings;

pub(super) struct Outboxes<'a> {
    opening: Opening,
    stores: &'a Stores,
    /// Sinks may take the events of handlers with their names.
    replace_handlers: bool,
    sinks: Sinks,
    /// Outboxes that a running relay is about to serve.
    adding: NamedTasks<()>,
}

impl<'a> Outboxes<'a> {
    pub(super) fn new(opening: Opening, stores: &'a Stores, replace_handlers: bool) -> Self {
        Self { opening, stores, replace_handlers, sinks: Sinks::default(), adding: NamedTasks::default() }
    }

    /// Opens the databases, then the sinks, and starts the relay with those that are up. A database that cannot be used is
    /// detected before a file is created.
    ///
    /// # Errors
    /// That of a database or sink that cannot be used. Of a database that is down, only if it must not be waited for.
    pub(super) async fn start(&mut self, settings: &Settings) -> Result<Relay> {
        for (name, outbox) in with_subscriptions(settings) {
            self.opening.open(name, outbox);
        }
        for (name, store) in self.opening.first().await? {
            self.stores.insert(name, store);
        }
        let mut relay = Relay::builder();
        if let Some(name) = &settings.relay.name {
            relay = relay.name(name);
        }
        for (name, store) in self.stores.all() {
            let (subscriptions, options) = self.served(&name, settings)?;
            relay = relay.outbox_with(store, subscriptions, options);
        }
        relay.spawn().await
    }

    fn served(&self, name: &str, settings: &Settings) -> Result<(Vec<Subscription>, OutboxOptions)> {
        let (mut subscriptions, options) = served(name, settings, &self.sinks)?;
        if self.replace_handlers {
            subscriptions = subscriptions.into_iter().map(Subscription::replaces_handler).collect();
        }
        Ok((subscriptions, options))
    }

    /// Opens more of them.
    pub(super) fn open(&mut self, names: &[String], settings: &Settings) {
        for name in names {
            if let Some(outbox) = settings.outboxes.get(name) {
                self.opening.open(name, outbox);
            }
        }
    }

    /// Waits for the next one that comes up, and serves it. One that cannot be served is tried again: an operator may mend
    /// it, and the others go on. Dropping the future loses nothing.
    pub(super) async fn serve_next(&mut self, relay: &RelayHandle, settings: &Settings) {
        tokio::select! {
            (name, opened) = self.opening.next() => {
                let prepared = opened.and_then(|store| {
                    self.stores.insert(name.clone(), store.clone());
                    let (subscriptions, options) = self.served(&name, settings)?;
                    Ok((store, subscriptions, options))
                });
                match prepared {
                    Ok((store, subscriptions, options)) => {
                        let relay = relay.clone();
                        self.adding.start(&name, async move {
                            relay.add_outbox(store, subscriptions, options).await
                        });
                    }
                    Err(error) => self.refused(&name, &error, settings),
                }
            }
            (name, added) = self.adding.next() => match added {
                Ok(()) => tracing::info!(outbox = name, "serving"),
                Err(error) => self.refused(&name, &error, settings),
            },
        }
    }

    fn refused(&mut self, name: &str, error: &Error, settings: &Settings) {
        let (code, hint) = (error.code(), error.hint());
        tracing::error!(outbox = name, %code, hint, "the outbox is not served yet: {}", error.one_line());
        if let Some(outbox) = settings.outbox(name) {
            self.opening.open_again(name, outbox);
        }
    }
}

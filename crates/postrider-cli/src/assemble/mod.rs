//! A relay of what is configured: the one place where settings become stores, routers, encoders and sinks.

mod sinks;

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider::encode::{Envelope, Plain};
use postrider::relay::{Relay, RelayBuilder, Subscription};
use postrider::route::Router;
use postrider::store::Store;
use postrider::{Code, Error, Result};

use self::sinks::Sinks;
use crate::config::Settings;
use crate::config::settings::{Encoding, SubscriptionSettings};

/// A relay ready to start, and the stores it works on.
pub struct Assembled {
    /// With every subscription of the configuration.
    pub relay: RelayBuilder,
    /// By the name of the outbox; only those that have subscriptions.
    pub stores: BTreeMap<String, Arc<dyn Store>>,
}

/// Opens every database, then every sink. A database that cannot be used is found before a file is created.
///
/// # Errors
/// That of the first database or sink that cannot be opened, or of what this program cannot do yet.
pub fn assemble(settings: &Settings) -> Result<Assembled> {
    let mut stores = BTreeMap::new();
    for SubscriptionSettings { outbox: name, .. } in settings.subscriptions.values() {
        if !stores.contains_key(name)
            && let Some(outbox) = settings.outboxes.get(name)
        {
            stores.insert(name.clone(), outbox.database.store()?);
        }
    }
    let sinks = Sinks::open(settings)?;
    let mut relay = Relay::builder();
    if let Some(name) = &settings.relay.name {
        relay = relay.name(name);
    }
    for (outbox, store) in &stores {
        let of_outbox = settings.subscriptions.iter().filter(|(_, of)| of.outbox == *outbox);
        let subscriptions = of_outbox
            .map(|(name, of)| subscription(name, of, settings, &sinks))
            .collect::<Result<Vec<_>>>()?;
        relay = relay.outbox(store.clone(), subscriptions);
    }
    Ok(Assembled { relay, stores })
}

fn subscription(
    name: &str,
    of: &SubscriptionSettings,
    settings: &Settings,
    sinks: &Sinks,
) -> Result<Subscription> {
    let sink = settings.sinks.get(&of.sink).and_then(|sink| Some((sink.encoding, sinks.get(&sink.target)?)));
    let (encoding, sink) = sink.ok_or_else(|| {
        Error::new(Code::ConfigReference, format!("subscription {name:?}: there is no sink {:?}", of.sink))
    })?;
    let subscription =
        Subscription::new(name, sink).start(of.start).policy(of.policy.clone()).router(router(name, of)?);
    match encoding {
        Encoding::Envelope => Ok(subscription.encoder(Envelope)),
        Encoding::Plain => Ok(subscription.encoder(Plain)),
        Encoding::CloudEvents | Encoding::CloudEventsBinary => {
            Err(not_built(format!("the encoder of sink {:?} is CloudEvents", of.sink)))
        }
    }
}

/// Without rules: to the event's own topic, else the subscription's name.
fn router(name: &str, of: &SubscriptionSettings) -> Result<Router> {
    if !of.rules.is_empty() {
        return Err(not_built(format!("subscription {name:?} has rules")));
    }
    let router = Router::to(name);
    Ok(match &of.only {
        Some(types) => router.only(types.clone()),
        None => router,
    })
}

fn not_built(what: impl Into<String>) -> Error {
    Error::new(Code::ConfigValue, what).hint("this program cannot do that yet; leave it out")
}

//! Builds a relay from the configuration: settings become stores, routers, encoders and sinks.

mod sinks;
mod stores;
mod wait;

pub use stores::Stores;
pub use wait::WhenDown;

use postrider::encode::{CloudEvents, CloudEventsBinary, Envelope, Plain};
use postrider::relay::{OutboxOptions, Relay, RelayBuilder, Subscription};
use postrider::{Code, Error, Result};

use self::sinks::Sinks;
use crate::config::Settings;
use crate::config::settings::{Encoding, SinkSettings, SubscriptionSettings};

/// Opens every database, then every sink, and returns the builder of a relay for all subscriptions. A database that
/// cannot be used is detected before a file is created. Opened databases are in `stores`, also after an error.
///
/// # Errors
/// That of the first database or sink that cannot be opened.
pub async fn assemble(settings: &Settings, stores: &mut Stores, when_down: WhenDown) -> Result<RelayBuilder> {
    for of in settings.subscriptions.values() {
        stores.open(&of.outbox, settings, when_down).await?;
    }
    let sinks = Sinks::open(settings)?;
    let mut relay = Relay::builder();
    if let Some(name) = &settings.relay.name {
        relay = relay.name(name);
    }
    for (outbox, store) in stores.iter() {
        let of_outbox = settings.subscriptions.iter().filter(|(_, of)| of.outbox == outbox);
        let subscriptions = of_outbox
            .map(|(name, of)| subscription(name, of, settings, &sinks))
            .collect::<Result<Vec<_>>>()?;
        let mut options = OutboxOptions::default();
        options.retention = settings.outboxes.get(outbox).map(|of| of.retention.clone());
        relay = relay.outbox_with(store.clone(), subscriptions, options);
    }
    Ok(relay)
}

fn subscription(
    name: &str,
    of: &SubscriptionSettings,
    settings: &Settings,
    sinks: &Sinks,
) -> Result<Subscription> {
    let sink = settings.sinks.get(&of.sink).and_then(|sink| Some((sink, sinks.get(name, &sink.target)?)));
    let (SinkSettings { encoding, source, target }, sink) = sink.ok_or_else(|| {
        Error::new(Code::ConfigReference, format!("subscription {name:?}: there is no sink {:?}", of.sink))
    })?;
    let subscription =
        Subscription::new(name, sink).start(of.start).policy(of.policy.clone()).router(of.router(name)?);
    let subscription = of.aliases.iter().fold(subscription, Subscription::alias);
    Ok(match encoding {
        Encoding::Envelope => subscription.encoder(Envelope),
        Encoding::Plain => subscription.encoder(Plain),
        Encoding::CloudEvents => subscription.encoder(CloudEvents::new(source.clone())),
        Encoding::CloudEventsBinary => {
            subscription.encoder(CloudEventsBinary::new(source.clone()).binding(target.binding()))
        }
    })
}

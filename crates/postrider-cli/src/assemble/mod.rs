//! Builds a relay from the configuration: settings become stores, routers, encoders and sinks.

mod named_tasks;
mod opening;
mod sinks;
mod stores;
mod wait;

pub use named_tasks::NamedTasks;
pub use opening::Opening;
pub use sinks::Sinks;
pub use stores::Stores;
pub use wait::WhenDown;

#[cfg(feature = "schemas")]
use postrider::encode::schema::SchemaEncoder;
use postrider::encode::{CloudEvents, CloudEventsBinary, Envelope, Plain};
use postrider::relay::{OutboxOptions, Subscription};
use postrider::{Code, Error, Result};

use crate::config::Settings;
use crate::config::digest::digest;
use crate::config::settings::{Encoding, OutboxSettings, SinkSettings, SubscriptionSettings};

/// The subscriptions of an outbox or shard, with their open sinks, and its options.
///
/// # Errors
/// That of the first sink that cannot be opened.
pub fn served(
    outbox: &str,
    settings: &Settings,
    sinks: &Sinks,
) -> Result<(Vec<Subscription>, OutboxOptions)> {
    let of_outbox = settings.subscriptions.iter().filter(|(_, of)| of.reads(outbox));
    let subscriptions = of_outbox
        .map(|(name, of)| subscription(outbox, name, of, settings, sinks))
        .collect::<Result<Vec<_>>>()?;
    let mut options = OutboxOptions::default();
    if let Some(of) = settings.outbox(outbox) {
        options.retention = Some(of.retention.clone());
        // Shards have the same subscriptions.
        options.name = of.shard.map(|_| outbox.to_owned());
    }
    options.metrics_name = Some(outbox.to_owned());
    Ok((subscriptions, options))
}

/// The outboxes and shards that have a subscription.
pub fn with_subscriptions(settings: &Settings) -> impl Iterator<Item = (&str, &OutboxSettings)> {
    let is_read = |name: &str| settings.subscriptions.values().any(|of| of.reads(name));
    settings.outboxes.iter().map(|(name, of)| (name.as_str(), of)).filter(move |(name, _)| is_read(name))
}

fn subscription(
    outbox: &str,
    name: &str,
    of: &SubscriptionSettings,
    settings: &Settings,
    sinks: &Sinks,
) -> Result<Subscription> {
    let digest = digest(settings, name);
    let settings = settings.sinks.get(&of.sink).ok_or_else(|| {
        Error::new(Code::ConfigReference, format!("subscription {name:?}: there is no sink {:?}", of.sink))
    })?;
    let SinkSettings { encoding, source, action_params, target, .. } = settings;
    let policy = of
        .policy
        .clone()
        .events_per_second_max(settings.events_per_second_max)
        .bytes_per_second_max(settings.bytes_per_second_max);
    let sink = sinks.get(outbox, name, target)?;
    let subscription = Subscription::new(name, sink).start(of.start).policy(policy).router(of.router(name)?);
    let subscription = subscription.sink_name(&of.sink).settings_digest(digest);
    let subscription = of.aliases.iter().fold(subscription, Subscription::alias);
    Ok(match encoding {
        Encoding::Envelope => subscription.encoder(Envelope),
        Encoding::Plain if *action_params => subscription.encoder(Plain.with_action_params()),
        Encoding::Plain => subscription.encoder(Plain),
        Encoding::CloudEvents => {
            subscription.encoder(CloudEvents::new(source.clone()).action_params(*action_params))
        }
        Encoding::CloudEventsBinary => {
            let binary = CloudEventsBinary::new(source.clone()).binding(target.binding());
            subscription.encoder(binary.action_params(*action_params))
        }
        #[cfg(feature = "schemas")]
        Encoding::Schema(config) => {
            let encoder =
                SchemaEncoder::open(config).map_err(|error| error.within(&format!("sink {:?}", of.sink)))?;
            subscription.encoder(encoder)
        }
    })
}

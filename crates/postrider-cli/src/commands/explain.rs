//! `postrider explain`

use clap::Args;
use postrider::operate::{EventSelector, Explained};
use serde_json::Value;

use super::outbox_arg::OutboxArg;
use crate::config::settings::OutboxSettings;
use crate::context::Context;
use crate::failure::Failure;
use crate::operator;

const EXAMPLES: &str = "Examples:
  postrider explain 0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c77
  postrider explain 4711 --outbox shop
  postrider explain --key Order/42 --json";

/// Say why an event was not delivered, or that it was: one sentence per subscription
///
/// Reads the database and changes nothing. An event is found by its position or row id, or by its id: ids are searched around
/// the time in them, so an id without a time is found only among the newest events. With --key, the first event with
/// that ordering key that a subscription has not finished is explained.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Explain {
    /// Id of the event, or its position or row id
    #[arg(value_name = "EVENT", required_unless_present = "key")]
    event: Option<String>,
    /// Explain what this ordering key waits for, for example Order/42
    #[arg(long, value_name = "KEY", conflicts_with = "event")]
    key: Option<String>,
    #[command(flatten)]
    outbox: OutboxArg,
}

impl Explain {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        let outboxes = self.outbox.one_with_shards(&settings)?;
        let mut all = Vec::new();
        for (name, outbox) in &outboxes {
            all.push((*name, self.explain(outbox)?));
        }
        // An event is in one shard; the others have nothing to say about it.
        let is_found =
            |explained: &Explained| explained.event.is_some() || !explained.subscriptions.is_empty();
        if all.iter().any(|(_, explained)| is_found(explained)) {
            all.retain(|(_, explained)| is_found(explained));
        } else {
            all.truncate(1);
        }
        if context.output.is_json() {
            let values: Vec<Value> = all.iter().map(|(name, explained)| as_json(name, explained)).collect();
            return context.output.json(&values);
        }
        let has_shards = outboxes.len() > 1;
        let texts = all.iter().map(|(name, explained)| match has_shards {
            true => format!("{name}: {explained}"),
            false => explained.to_string(),
        });
        context.output.text(texts.collect::<String>())
    }

    fn explain(&self, outbox: &OutboxSettings) -> Result<Explained, Failure> {
        let sought = match (&self.event, &self.key) {
            (_, Some(key)) => EventSelector::Key(key.clone()),
            (event, None) => EventSelector::Event(event.clone().unwrap_or_default()),
        };
        operator::run(outbox, async |operator| operator.explain(sought).await)
    }
}

/// The explanation with its sentences.
fn as_json(outbox: &str, explained: &Explained) -> Value {
    let mut value = serde_json::to_value(explained).unwrap_or_default();
    value["outbox"] = outbox.into();
    if let Some(absent) = &explained.absent {
        value["sentence"] = absent.to_string().into();
    }
    for (number, of) in explained.subscriptions.iter().enumerate() {
        value["subscriptions"][number]["sentence"] = of.to_string().into();
    }
    value
}

//! `postrider events show`

use clap::Args;
use postrider::operate::{EventSelector, Explained};
use postrider::{Code, Error, Event};
use serde_json::{Value, json};

use crate::commands::outbox_arg::OutboxArg;
use crate::context::Context;
use crate::failure::Failure;
use crate::operator;

/// Show one event: its fields, and where it is in each subscription
///
/// Payload, headers and the parameters of its action are shown only with --payload. Reads the database and changes nothing.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider events show 0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c77
  postrider events show 4711 --payload --json")]
pub(super) struct Show {
    /// Id of the event, or its position or row id
    event: String,
    /// Show payload, headers and the parameters of the action
    #[arg(long)]
    payload: bool,
    #[command(flatten)]
    outbox: OutboxArg,
}

impl Show {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        let (_, outbox) = self.outbox.one(&settings)?;
        let (explained, event) = operator::run(outbox, async |operator| {
            operator.show(EventSelector::Event(self.event.clone())).await
        })?;
        if let Some(absent) = &explained.absent {
            return Err(Error::new(Code::EventUnknown, absent.to_string())
                .with_effect("nothing was changed")
                .with_hint("check the id; `postrider events list` shows the events of the outbox")
                .into());
        }
        let fields = self.fields(&explained, event.as_deref());
        match context.output.is_json() {
            true => context.output.json(&Value::Object(fields.into_iter().collect())),
            false => context.output.text(text(fields, &explained)),
        }
    }

    /// The fields that are set, in their order.
    fn fields(&self, explained: &Explained, event: Option<&Event>) -> Vec<(String, Value)> {
        let row = explained.event.as_ref();
        let mut fields: Vec<(&str, Value)> = vec![
            ("row", row.map(|event| event.row.clone()).into()),
            ("id", row.and_then(|event| event.id.clone()).into()),
            ("type", row.and_then(|event| event.event_type.clone()).into()),
            ("key", row.and_then(|event| event.key.clone()).into()),
            ("time", row.and_then(|event| event.time).map(|time| time.to_string()).into()),
        ];
        if let Some(event) = event {
            let aggregate = event.aggregate.as_ref();
            let action = event.action.as_ref();
            fields.extend([
                ("aggregate_type", aggregate.map(|about| about.kind.clone()).into()),
                ("aggregate_id", aggregate.map(|about| about.id.clone()).into()),
                ("topic", event.topic.clone().into()),
                ("namespace", event.namespace.clone().into()),
                ("producer", event.producer.clone().into()),
                ("action_id", action.map(|action| action.id.to_string()).into()),
                ("action_name", action.map(|action| action.name.clone()).into()),
                ("max_attempts", event.max_attempts.into()),
                ("expires_at", event.expires_at.map(|time| time.to_string()).into()),
                ("payload_bytes", event.payload.len().into()),
            ]);
            if self.payload {
                let headers: Vec<Value> =
                    event.headers.iter().map(|(name, value)| json!([name, value])).collect();
                fields.extend([
                    ("headers", (!headers.is_empty()).then_some(Value::Array(headers)).into()),
                    ("action_params", action.map(|action| action.params.clone()).into()),
                    ("payload", shown(&event.payload).into()),
                ]);
            }
        }
        let subscriptions = explained.subscriptions.iter().map(|of| {
            let mut value = serde_json::to_value(of).unwrap_or_default();
            value["sentence"] = of.to_string().into();
            value
        });
        fields.push(("subscriptions", subscriptions.collect()));
        fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

/// A payload as text if it is UTF-8, else in hexadecimal.
fn shown(payload: &[u8]) -> String {
    match std::str::from_utf8(payload) {
        Ok(text) => text.to_owned(),
        Err(_) => payload.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// One line per field, without control characters, and the sentences.
fn text(fields: Vec<(String, Value)>, explained: &Explained) -> String {
    let mut lines = Vec::new();
    for (name, value) in fields.into_iter().filter(|(name, _)| name != "subscriptions") {
        let value = match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        lines.push(format!("{name:<15} {}", value.replace(char::is_control, " ")));
    }
    lines.extend(explained.subscriptions.iter().map(ToString::to_string));
    lines.join("\n")
}

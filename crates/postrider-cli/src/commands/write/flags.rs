//! An event from flags.

use std::fs::File;
use std::io::{self, Read};

use clap::Args;
use postrider::{ActionContext, Aggregate, Code, Error, Event, Limits, Result, Timestamp};
use serde::de::IgnoredAny;
use uuid::Uuid;

/// The fields of one event
#[derive(Debug, Args)]
#[command(next_help_heading = "One event")]
pub(super) struct EventFlags {
    /// Event type, such as order.placed
    #[arg(long = "type", value_name = "TYPE", required_unless_present = "lines", conflicts_with = "lines")]
    event_type: Option<String>,

    /// Payload: text, @FILE, or - for standard input
    #[arg(long, value_name = "PAYLOAD", default_value = "{}", conflicts_with = "lines")]
    payload: String,

    /// The entity it is about, such as Order:42
    #[arg(long, value_name = "TYPE:ID", value_parser = aggregate, conflicts_with = "lines")]
    aggregate: Option<Aggregate>,

    /// Events with the same key are delivered in order; also the message key [default: the aggregate]
    #[arg(long, conflicts_with = "lines")]
    key: Option<String>,

    /// A header; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = header, conflicts_with = "lines")]
    header: Vec<(String, String)>,

    /// Topic to send it to, unless routing rules decide
    #[arg(long, conflicts_with = "lines")]
    topic: Option<String>,

    /// Event id, a UUID [default: a new one]
    #[arg(long, value_name = "UUID", conflicts_with = "lines")]
    id: Option<Uuid>,

    /// Event time, such as 2026-11-15T21:35:00Z [default: now]
    #[arg(long, conflicts_with = "lines")]
    time: Option<Timestamp>,

    /// Do not deliver it after this time
    #[arg(long, value_name = "TIME", conflicts_with = "lines")]
    expires_at: Option<Timestamp>,

    /// Maximum attempts; overrides the subscription's setting
    #[arg(long, value_name = "N", conflicts_with = "lines")]
    max_attempts: Option<u32>,

    /// The service it comes from. Layout eventlog requires it
    #[arg(long, conflicts_with = "lines")]
    namespace: Option<String>,

    /// The action that caused it, such as PlaceOrder; each call is a new action. Layout eventlog requires it
    #[arg(long, value_name = "NAME", conflicts_with = "lines")]
    action: Option<String>,

    /// Parameters of the action, as JSON
    #[arg(long, value_name = "JSON", default_value = "{}", requires = "action", value_parser = params, conflicts_with = "lines")]
    params: String,

    /// The machine or process it comes from [default: this machine's name]
    #[arg(long, conflicts_with = "lines")]
    producer: Option<String>,
}

impl EventFlags {
    /// The event they describe.
    ///
    /// # Errors
    /// [`Code::InputMissing`] if the payload cannot be read.
    pub(super) fn event(&self, limits: &Limits) -> Result<Event> {
        let event_type = self.event_type.clone().unwrap_or_default();
        let mut event = Event::new(event_type, payload(&self.payload, limits.payload_bytes_max)?);
        event.aggregate.clone_from(&self.aggregate);
        event.key.clone_from(&self.key);
        event.headers = self.header.iter().cloned().collect();
        event.topic.clone_from(&self.topic);
        event.id = self.id.unwrap_or(event.id);
        event.time = self.time.unwrap_or(event.time);
        event.expires_at = self.expires_at;
        event.max_attempts = self.max_attempts;
        event.namespace.clone_from(&self.namespace);
        event.producer.clone_from(&self.producer);
        event.action = self.action.as_ref().map(|name| ActionContext::new(name, &self.params));
        Ok(event)
    }
}

/// Reads the payload, at most one byte more than the limit, so that a larger one is rejected for its size.
fn payload(given: &str, bytes_max: usize) -> Result<Vec<u8>> {
    let (from, name) = match given.strip_prefix('@') {
        Some(path) => (File::open(path).map(|file| Box::new(file) as Box<dyn Read>), path),
        None if given == "-" => (Ok(Box::new(io::stdin()) as Box<dyn Read>), "standard input"),
        None => return Ok(given.as_bytes().to_vec()),
    };
    let mut bytes = Vec::new();
    from.and_then(|from| from.take(bytes_max as u64 + 1).read_to_end(&mut bytes)).map_err(|e| {
        Error::new(Code::InputMissing, format!("cannot read the payload from {name}"))
            .with_hint(
                "check the file; to send a payload that begins with @, use standard input: --payload -",
            )
            .with_source(e)
    })?;
    Ok(bytes)
}

pub(in crate::commands) fn aggregate(text: &str) -> Result<Aggregate, &'static str> {
    let (kind, id) = text.split_once(':').ok_or("write it as TYPE:ID, for example Order:42")?;
    Ok(Aggregate::new(kind, id))
}

fn params(text: &str) -> Result<String, String> {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("this is not valid JSON: {error}")),
    }
}

fn header(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

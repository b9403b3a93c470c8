//! The attributes of an event, which are the same in both modes.

use std::borrow::Cow;

use super::super::{Outgoing, on_one_line};
use super::{SPECVERSION, Source};
use crate::event::{TRACEPARENT, TRACESTATE};
use crate::{Event, TraceContext};

/// Attribute names of the specification and of Postrider: a header of the event with one of these names does not become
/// an attribute.
const TAKEN: [&str; 22] = [
    "specversion",
    "id",
    "source",
    "type",
    "subject",
    "time",
    "datacontenttype",
    "dataschema",
    "data",
    "partitionkey",
    TRACEPARENT,
    TRACESTATE,
    "outboxposition",
    "aggregatetype",
    "aggregateid",
    "producer",
    "topic",
    "actionid",
    "actionname",
    "actionstarted",
    "actioncompleted",
    "actionparams",
];

/// The longest name of an extension that the specification recommends.
const NAME_BYTES_MAX: usize = 20;

/// Names and values of an event's attributes, except `datacontenttype`, which depends on the mode.
pub(super) type Attributes<'a> = Vec<(&'a str, Cow<'a, str>)>;

pub(super) fn attributes<'a>(
    outgoing: &Outgoing<'a>,
    source: &'a Source,
    sends_params: bool,
) -> Attributes<'a> {
    let event = outgoing.event;
    let mut all: Attributes<'a> = Vec::with_capacity(TAKEN.len() + event.headers.len());
    all.push(("specversion", SPECVERSION.into()));
    all.push(("id", event.id.to_string().into()));
    all.push(("source", source.of(event)));
    all.push(("type", event.event_type.as_str().into()));
    if let Some(aggregate) = &event.aggregate {
        all.push(("subject", format!("{}/{}", aggregate.kind, aggregate.id).into()));
    }
    // Only another writer can store a time that RFC 3339 cannot represent.
    if event.time.is_storable() {
        all.push(("time", event.time.to_string().into()));
    }
    all.extend(outgoing.key.map(|key| ("partitionkey", key.into())));
    if let Some(trace) = TraceContext::from_headers(&event.headers) {
        all.push((TRACEPARENT, trace.traceparent().to_owned().into()));
        all.extend(trace.tracestate().map(|state| (TRACESTATE, state.to_owned().into())));
    }
    // As a string: an integer of the specification has 32 bits.
    all.push(("outboxposition", outgoing.position.to_string().into()));
    facts(event, &mut all);
    if let Some(action) = event.action.as_ref().filter(|_| sends_params) {
        all.push(("actionparams", on_one_line(&action.params)));
    }
    all.extend(extensions(event).map(|(name, value)| (name, value.into())));
    all
}

fn facts<'a>(event: &'a Event, all: &mut Attributes<'a>) {
    if let Some(aggregate) = &event.aggregate {
        all.push(("aggregatetype", aggregate.kind.as_str().into()));
        all.push(("aggregateid", aggregate.id.as_str().into()));
    }
    all.extend(event.producer.as_deref().map(|producer| ("producer", producer.into())));
    all.extend(event.topic.as_deref().map(|topic| ("topic", topic.into())));
    if let Some(action) = &event.action {
        all.push(("actionid", action.id.to_string().into()));
        all.push(("actionname", action.name.as_str().into()));
        all.push(("actionstarted", action.started.to_string().into()));
        all.push(("actioncompleted", action.completed.to_string().into()));
    }
}

/// The event's headers that can be extensions: lower-case letters and digits, not too long, not a taken name, with a
/// value.
fn extensions(event: &Event) -> impl Iterator<Item = (&str, &str)> {
    event.headers.iter().filter(|(name, value)| {
        let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        name.len() <= NAME_BYTES_MAX && name.bytes().all(word) && !TAKEN.contains(name) && !value.is_empty()
    })
}

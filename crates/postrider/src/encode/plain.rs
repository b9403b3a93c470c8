//! The unchanged payload, with the other fields in headers.

use super::{Encoded, Encoder, JSON, Outgoing, on_one_line};
use crate::{Event, Headers, Position, Result};

/// Sends the payload byte for byte, without a copy, and the other fields in headers that start with `postrider-`. For
/// consumers that do not know Postrider.
///
/// The content type is the event's `content-type` header, else `application/json`. The parameters of an action are not
/// sent, because they may be too large for a header; see [`Plain::with_action_params`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Plain {
    /// The same, with the parameters of an event's action as the header `postrider-action-params`. They may be larger than a
    /// destination allows for headers.
    pub fn with_action_params(self) -> PlainWithActionParams {
        PlainWithActionParams
    }
}

/// As [`Plain`], with the parameters of actions.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainWithActionParams;

impl Encoder for PlainWithActionParams {
    fn encode(&self, outgoing: &Outgoing<'_>) -> Result<Encoded> {
        Plain.encode(outgoing)
    }

    fn headers(&self, outgoing: &Outgoing<'_>) -> Headers {
        let mut headers = Plain.headers(outgoing);
        if let Some(action) = &outgoing.event.action {
            headers.set("postrider-action-params", &*on_one_line(&action.params));
        }
        headers
    }
}

impl Encoder for Plain {
    fn encode(&self, outgoing: &Outgoing<'_>) -> Result<Encoded> {
        Ok(Encoded {
            body: outgoing.event.payload.clone(),
            content_type: outgoing.own_content_type().map_or(JSON.into(), |own| own.to_owned().into()),
        })
    }

    fn headers(&self, outgoing: &Outgoing<'_>) -> Headers {
        facts(outgoing.position, outgoing.event)
    }
}

pub(super) fn facts(position: Position, event: &Event) -> Headers {
    let mut headers = Headers::default();
    headers.set("postrider-id", event.id.to_string());
    headers.set("postrider-type", &event.event_type);
    headers.set("postrider-time", event.time.to_string());
    headers.set("postrider-position", position.to_string());
    if let Some(aggregate) = &event.aggregate {
        headers.set("postrider-aggregate-type", &aggregate.kind);
        headers.set("postrider-aggregate-id", &aggregate.id);
    }
    if let Some(action) = &event.action {
        headers.set("postrider-action-id", action.id.to_string());
        headers.set("postrider-action-name", &action.name);
        headers.set("postrider-action-started", action.started.to_string());
        headers.set("postrider-action-completed", action.completed.to_string());
    }
    for (name, value) in [
        ("postrider-key", &event.key),
        ("postrider-topic", &event.topic),
        ("postrider-namespace", &event.namespace),
        ("postrider-producer", &event.producer),
    ] {
        if let Some(value) = value {
            headers.set(name, value);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_is_sent_without_a_copy() {
        let event = Event::new("a", vec![0xff; 8]);
        let body = Plain.encode(&Outgoing::new(Position::new(1), &event)).unwrap().body;
        assert_eq!(body.as_ptr(), event.payload.as_ptr());
    }

    #[test]
    fn the_content_type_of_the_event_has_precedence_over_json() {
        let content_type =
            |event| Plain.encode(&Outgoing::new(Position::new(1), &event)).unwrap().content_type;
        assert_eq!(content_type(Event::new("a", "")), "application/json");
        assert_eq!(content_type(Event::new("a", "").with_header("Content-Type", "text/csv")), "text/csv");
    }
}

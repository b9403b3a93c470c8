//! What a consumer needs to know of a received message before it applies it: the event's id, and the trace.

use serde::Deserialize;
use uuid::Uuid;

use crate::event::{TRACEPARENT, TRACESTATE};
use crate::{Code, Error, Result, TraceContext};

/// Headers with the event's id, by encoder: `plain`, CloudEvents over HTTP, CloudEvents over Kafka.
const ID_HEADERS: [&str; 3] = ["postrider-id", "ce-id", "ce_id"];

/// A received message, as far as an inbox needs to know it.
///
/// It works on pairs of names and values, so it fits every client. With rdkafka:
///
/// ```ignore
/// let headers = message.headers().into_iter().flat_map(|all| all.iter());
/// let pairs = headers.filter_map(|header| Some((header.key, header.value?)));
/// let incoming = Incoming::of(pairs, message.payload().unwrap_or_default())?;
///
/// let mut tx = pool.begin().await?;
/// inbox.once(&mut tx, "mail", incoming.event_id, async |tx| apply(tx, &message).await).await?;
/// tx.commit().await?;
/// consumer.commit_message(&message, CommitMode::Async)?; // after the commit, never before
/// ```
///
/// Nothing here is verified. For a webhook, take the id that its signature covers: `Verifier::receive` of the crate
/// `postrider-sinks`.
///
/// # Example
/// ```
/// use postrider::inbox::Incoming;
///
/// let headers = [
///     ("postrider-id", &b"01980b7c-5a00-7000-8000-000000000001"[..]),
///     ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
/// ];
/// let incoming = Incoming::of(headers, br#"{"cents": 1200}"#)?;
/// assert_eq!(incoming.event_id.to_string(), "01980b7c-5a00-7000-8000-000000000001");
/// assert!(incoming.trace.is_some());
/// # Ok::<(), postrider::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incoming {
    /// The event's id, the same in every delivery.
    pub event_id: Uuid,
    /// The trace of the transaction that wrote the event, if it had one. Link to it, or continue it.
    pub trace: Option<TraceContext>,
}

impl Incoming {
    /// Reads the id from the headers of the encoders `plain` and CloudEvents in binary mode, otherwise from the body, which
    /// the envelope and CloudEvents in structured mode have it in. Names are compared without regard to case. If a header
    /// occurs several times, the first counts.
    ///
    /// # Errors
    /// [`Code::EventIdMissing`] if neither has an id that is a UUID. The message is not from a relay, or its id is not a
    /// UUID: choose one yourself and pass it to the inbox, for example a UUID of version 5 of the id you have.
    pub fn of<'m>(headers: impl IntoIterator<Item = (&'m str, &'m [u8])>, body: &[u8]) -> Result<Self> {
        let headers: Vec<(&str, &[u8])> = headers.into_iter().collect();
        let text = |name: &str| {
            let (_, value) = headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name))?;
            std::str::from_utf8(value).ok()
        };
        let in_headers = ID_HEADERS.into_iter().find_map(text).map(str::trim);
        let event_id = match in_headers {
            Some(id) => {
                Uuid::parse_str(id).map_err(|_| missing("the header with the event's id is not a UUID"))?
            }
            None => in_body(body)?,
        };
        Ok(Self { event_id, trace: trace(text) })
    }

    /// A message whose id is known, with the trace of its headers, which `header` looks up by names in lower case.
    pub fn with_id<'m>(event_id: Uuid, header: impl Fn(&str) -> Option<&'m str>) -> Self {
        Self { event_id, trace: trace(header) }
    }
}

/// As W3C asks, a bad `traceparent` means no context, and a bad `tracestate` is dropped.
fn trace<'m>(header: impl Fn(&str) -> Option<&'m str>) -> Option<TraceContext> {
    let parent = header(TRACEPARENT)?.trim();
    TraceContext::parse(parent, header(TRACESTATE)).or_else(|_| TraceContext::parse(parent, None)).ok()
}

fn in_body(body: &[u8]) -> Result<Uuid> {
    #[derive(Deserialize)]
    struct Identified {
        id: Uuid,
    }
    let found: Result<Identified, _> = serde_json::from_slice(body);
    found.map(|found| found.id).map_err(|why| {
        missing("no header has the event's id, and the body is not a JSON object with one").with_source(why)
    })
}

fn missing(what: &str) -> Error {
    Error::new(Code::EventIdMissing, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01980b7c-5a00-7000-8000-000000000001";
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(headers: &[(&str, &str)], body: &str) -> Result<Incoming> {
        Incoming::of(headers.iter().map(|(name, value)| (*name, value.as_bytes())), body.as_bytes())
    }

    #[test]
    fn the_id_is_found_where_each_encoder_puts_it() {
        for name in ["postrider-id", "Postrider-ID", "ce-id", "ce_id"] {
            assert_eq!(read(&[(name, ID)], "not JSON").unwrap().event_id.to_string(), ID, "{name}");
        }
        let envelope = format!(r#"{{"type": "order.placed", "id": "{ID}", "payload": {{"id": 7}}}}"#);
        assert_eq!(read(&[("tenant", "blue")], &envelope).unwrap().event_id.to_string(), ID);
    }

    #[test]
    fn a_message_without_an_id_is_refused_and_a_bad_trace_is_dropped() {
        for (headers, body) in [
            (&[][..], ""),
            (&[("postrider-id", "7")][..], "{}"),
            (&[][..], r#"{"id": 7}"#),
            (&[][..], r#"{"type": "a"}"#),
        ] {
            let error = read(headers, body).unwrap_err();
            assert_eq!(error.code(), Code::EventIdMissing, "{headers:?} {body}");
        }
        let with = |parent, state| {
            read(&[("postrider-id", ID), ("traceparent", parent), ("tracestate", state)], "").unwrap().trace
        };
        assert_eq!(with("not a trace", "a=b"), None);
        assert_eq!(with(TRACE, "a=b").unwrap().tracestate(), Some("a=b"));
        assert_eq!(with(TRACE, "no").unwrap().tracestate(), None);
    }
}

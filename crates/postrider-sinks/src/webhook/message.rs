//! The HTTP headers of a message.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use postrider::event::{TRACEPARENT, TRACESTATE};
use postrider::sink::{Message, RENAMED_HEADER_PREFIX};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::{Key, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};

/// Names that HTTP, the client or the signature use.
const RESERVED: [&str; 18] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    WEBHOOK_ID,
    WEBHOOK_TIMESTAMP,
    WEBHOOK_SIGNATURE,
];

/// Names that servers and proxies act on: sender, forwarding, method and path. An event must not set these for its own
/// request; only `headers` of the sink may.
const ACTED_ON: [&str; 15] = [
    "authorization",
    "cookie",
    "cookie2",
    "forwarded",
    "set-cookie",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];

/// Characters that are percent-encoded in names: all except those of an HTTP token. `%` is part of the encoding.
const NOT_IN_NAMES: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'^')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');
/// Characters that are percent-encoded in values: all that are not printable ASCII, and `%`.
const NOT_IN_VALUES: &AsciiSet = &CONTROLS.add(b'%');
/// The same, in a value with a space at an end.
const NOT_IN_PADDED_VALUES: &AsciiSet = &NOT_IN_VALUES.add(b' ');

/// Whether the sink or HTTP sets this header itself.
pub(super) fn is_reserved(name: &HeaderName) -> bool {
    *name == CONTENT_TYPE || RESERVED.contains(&name.as_str())
}

/// Whether a header of an event must be renamed. Some servers treat `_` as `-`, so both count as the same name.
fn must_be_renamed(name: &HeaderName, common: &HeaderMap) -> bool {
    let dashed = name.as_str().replace('_', "-");
    RESERVED.contains(&&*dashed)
        || ACTED_ON.contains(&&*dashed)
        || dashed == CONTENT_TYPE.as_str()
        || name.as_str() != dashed && dashed.starts_with("postrider-")
        || common.contains_key(name)
        || common.contains_key(&*dashed)
}

/// The headers of a request: those of the message, those of every request, the media type and the signatures.
///
/// - Characters of a value other than printable ASCII, `%`, and spaces at the ends are percent-encoded. The values of
///   `traceparent`, `tracestate` and CloudEvents headers (`ce-`) are encoded by their own rules and sent unchanged.
/// - A header of the event whose name is reserved, or that servers and proxies act on, is sent as
///   `postrider-header-NAME`; `content-type` is that of the body.
/// - A name that is not valid in HTTP is percent-encoded.
///
/// # Errors
/// Two headers whose names differ only in case, or an invalid media type. Such a message can never be sent.
pub(super) fn headers(
    message: &Message,
    common: &HeaderMap,
    keys: &[Key],
    timestamp_seconds: i64,
) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in message.headers() {
        if name.eq_ignore_ascii_case(CONTENT_TYPE.as_str()) {
            continue;
        }
        let mut known = header_name(&name).ok_or_else(|| format!("the header {name:?} has no name"))?;
        if must_be_renamed(&known, common) {
            known = header_name(&format!("{RENAMED_HEADER_PREFIX}{name}")).ok_or("a header has no name")?;
        }
        let value = HeaderValue::from_str(&header_value(known.as_str(), &value))
            .map_err(|_| format!("the header {name:?} cannot be sent"))?;
        if headers.insert(known, value).is_some() {
            return Err(format!("the header {name:?} occurs twice: HTTP header names are case-insensitive"));
        }
    }
    headers.extend(common.iter().map(|(name, value)| (name.clone(), value.clone())));
    let content_type = HeaderValue::from_str(&message.content_type)
        .map_err(|_| format!("the media type {:?} cannot be sent", message.content_type))?;
    headers.insert(CONTENT_TYPE, content_type);
    if message.body.is_empty() {
        // The client sends no length for an empty body, and servers then respond with 411.
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    sign(&mut headers, message, keys, timestamp_seconds);
    Ok(headers)
}

fn sign(headers: &mut HeaderMap, message: &Message, keys: &[Key], timestamp_seconds: i64) {
    let id = message.event.id.to_string();
    let signatures: Vec<String> =
        keys.iter().map(|key| key.sign(&id, timestamp_seconds, &message.body)).collect();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(WEBHOOK_ID, id);
    }
    headers.insert(WEBHOOK_TIMESTAMP, timestamp_seconds.into());
    if let (false, Ok(all)) = (keys.is_empty(), HeaderValue::from_str(&signatures.join(" "))) {
        headers.insert(WEBHOOK_SIGNATURE, all);
    }
}

fn header_name(name: &str) -> Option<HeaderName> {
    let encoded = utf8_percent_encode(name, NOT_IN_NAMES).to_string();
    HeaderName::from_bytes(encoded.as_bytes()).ok()
}

fn header_value<'a>(name: &str, value: &'a str) -> Cow<'a, str> {
    let is_encoded_already = name.starts_with("ce-") || name == TRACEPARENT || name == TRACESTATE;
    if is_encoded_already && value.chars().all(|c| (' '..='~').contains(&c)) {
        return value.into();
    }
    // HTTP drops spaces at the ends.
    let ends_with_space = value.starts_with(' ') || value.ends_with(' ');
    utf8_percent_encode(value, if ends_with_space { NOT_IN_PADDED_VALUES } else { NOT_IN_VALUES }).into()
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;

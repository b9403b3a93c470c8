//! A message as the headers of a request.

use std::borrow::Cow;

use postrider::event::{TRACEPARENT, TRACESTATE};
use postrider::sink::{HEADER_ASIDE, Message};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::{Key, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};

/// Names that HTTP, the client or the signature need for themselves.
const TAKEN: [&str; 18] = [
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

/// Names that servers and proxies act upon: who sends, on whose behalf, which method and path is meant. An event may
/// not say such things of the request that carries it; `headers` of the sink may.
const TRUSTED: [&str; 15] = [
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

/// Whether the sink or HTTP sets this header itself.
pub(super) fn is_taken(name: &HeaderName) -> bool {
    *name == CONTENT_TYPE || TAKEN.contains(&name.as_str())
}

/// Whether a header of an event has to stand aside: some servers take `_` for `-`, so that counts as the same.
fn stands_aside(name: &HeaderName, every: &HeaderMap) -> bool {
    let dashed = name.as_str().replace('_', "-");
    TAKEN.contains(&&*dashed)
        || TRUSTED.contains(&&*dashed)
        || dashed == CONTENT_TYPE.as_str()
        || name.as_str() != dashed && dashed.starts_with("postrider-")
        || every.contains_key(name)
        || every.contains_key(&*dashed)
}

/// Headers of the request for a message at a moment: the message's own, those of every request, the media type and
/// the signatures.
///
/// - A value with more than printable ASCII in it, or with `%`, or with a space at an end, is percent-encoded there.
///   Those of `traceparent`, `tracestate` and CloudEvents (`ce-`) are so by their own rules and go as they are.
/// - A header of the event with a name that is taken, or that servers and proxies act upon, arrives as
///   `postrider-header-NAME`; `content-type` is the body's.
/// - A name that HTTP cannot carry is percent-encoded.
///
/// # Errors
/// Two names that are one to HTTP, or a media type that is none. Such a message can never be sent.
pub(super) fn headers(
    message: &Message,
    every: &HeaderMap,
    keys: &[Key],
    timestamp_seconds: i64,
) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in message.headers() {
        if name.eq_ignore_ascii_case(CONTENT_TYPE.as_str()) {
            continue;
        }
        let mut known = header_name(&name).ok_or_else(|| format!("the header {name:?} has no name"))?;
        if stands_aside(&known, every) {
            known = header_name(&format!("{HEADER_ASIDE}{name}")).ok_or("a header has no name")?;
        }
        let value = HeaderValue::from_str(&header_value(known.as_str(), &value))
            .map_err(|_| format!("the header {name:?} cannot be sent"))?;
        if headers.insert(known, value).is_some() {
            return Err(format!("the header {name:?} occurs twice: HTTP header names are case-insensitive"));
        }
    }
    headers.extend(every.iter().map(|(name, value)| (name.clone(), value.clone())));
    let content_type = HeaderValue::from_str(&message.content_type)
        .map_err(|_| format!("the media type {:?} cannot be sent", message.content_type))?;
    headers.insert(CONTENT_TYPE, content_type);
    if message.body.is_empty() {
        // The client says nothing of a body that is empty, and servers then answer 411.
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
    let encoded = percent_encoded(name, |c| c.is_ascii_alphanumeric() || "-_.!#$&'*+^`|~".contains(c));
    HeaderName::from_bytes(encoded.as_bytes()).ok()
}

fn header_value<'a>(name: &str, value: &'a str) -> Cow<'a, str> {
    let printable = |c: char| (' '..='~').contains(&c);
    let as_it_is = name.starts_with("ce-") || name == TRACEPARENT || name == TRACESTATE;
    if as_it_is && value.chars().all(printable) {
        return value.into();
    }
    // HTTP drops spaces at the ends.
    let at_an_end = value.starts_with(' ') || value.ends_with(' ');
    percent_encoded(value, |c| printable(c) && c != '%' && !(c == ' ' && at_an_end))
}

/// A text with every character but those that `stays` as the percent-encoded bytes of its UTF-8.
fn percent_encoded(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.chars().all(&stays) {
        return text.into();
    }
    let mut encoded = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if stays(c) {
            encoded.push(c);
        } else {
            encoded.extend(c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("%{byte:02X}")));
        }
    }
    encoded.into()
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;

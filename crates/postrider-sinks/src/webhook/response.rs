//! Reads a response: its status, and a short excerpt without secrets.

use std::time::Duration;

use postrider::Timestamp;
use reqwest::header::{LOCATION, RETRY_AFTER};
use reqwest::{Response, Url};

use super::address::Address;
use super::error::EndpointResponse;
use super::retry_after::retry_after;

/// Maximum number of bytes read from the body of a response.
const BODY_BYTES_MAX: usize = 4 * 1024;
/// Maximum number of characters of an excerpt.
const EXCERPT_CHARS_MAX: usize = 240;
/// How long to wait for the rest of a successful response, so that its connection can be reused.
const REST_TIMEOUT: Duration = Duration::from_secs(1);

/// Texts that must not appear in an excerpt.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// Masks these texts, except those that are too short to be a secret.
    pub(super) fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all: Vec<String> =
            texts.into_iter().filter(|text| text.len() >= 6).map(str::to_owned).collect();
        // The longest first, because one secret may be a part of another.
        all.sort_unstable_by_key(|text| std::cmp::Reverse(text.len()));
        Self(all)
    }

    fn mask(&self, text: String, url: &Url) -> String {
        let of_url = [url.query().unwrap_or_default(), url.path()].into_iter().filter(|part| part.len() >= 6);
        let all = self.0.iter().map(String::as_str).chain(of_url);
        all.fold(text, |text, secret| text.replace(secret, "***"))
    }
}

/// Reads what the outcome depends on. A success status counts even if the body cannot be read.
pub(super) async fn read(
    mut response: Response,
    address: &Address,
    secrets: &Secrets,
    now: Timestamp,
    only_endpoint: bool,
) -> EndpointResponse {
    let status = response.status();
    let body = tokio::time::timeout(REST_TIMEOUT, body(&mut response)).await.unwrap_or_default();
    if status.is_success() {
        return EndpointResponse { status, retry_after: None, text: String::new(), only_endpoint };
    }
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let mut text = format!("{address} answered {status}");
    if status.is_redirection() {
        let to = header(LOCATION).and_then(|to| address.url.join(to).ok());
        let to = to.map(|to| format!(" to {}", to.origin().ascii_serialization())).unwrap_or_default();
        text = format!(
            "{address} redirects{to} ({status}); redirects are not followed; configure the final address"
        );
    }
    let said = secrets.mask(one_line(&body), &address.url);
    if !said.is_empty() {
        text = format!("{text}: {}", excerpt(said));
    }
    EndpointResponse {
        status,
        retry_after: header(RETRY_AFTER).and_then(|value| retry_after(value, now)),
        text,
        only_endpoint,
    }
}

async fn body(response: &mut Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = BODY_BYTES_MAX - body.len();
        body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if body.len() >= BODY_BYTES_MAX {
            break;
        }
    }
    body
}

/// A body on one line. A truncated body loses its last word, which may be half a secret.
fn one_line(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body).replace(char::is_control, " ");
    let whole =
        if body.len() < BODY_BYTES_MAX { &text } else { text.rsplit_once(' ').map_or("", |(all, _)| all) };
    whole.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The beginning of a text.
fn excerpt(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(EXCERPT_CHARS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_one_short_line() {
        assert_eq!(one_line(b" no\r\n\x1b[31m such\torder \xff"), "no [31m such order \u{fffd}");
        assert_eq!(one_line(b""), "");
        assert_eq!(one_line(&[&b"a T0K"[..], &[b'E'; BODY_BYTES_MAX]].concat()), "a");
        assert_eq!(excerpt("é".repeat(1000)).chars().count(), EXCERPT_CHARS_MAX + 1);
    }

    #[test]
    fn secrets_in_a_response_are_masked() {
        let secrets = Secrets::new(["Bearer T0KEN-T0KEN", "T0KEN-T0KEN", "no"]);
        let url = Url::parse("https://h.example/services/T1/B2?key=QU3RY").unwrap();
        let said = "no route /services/T1/B2?key=QU3RY for Bearer T0KEN-T0KEN (T0KEN-T0KEN)".to_owned();
        assert_eq!(secrets.mask(said, &url), "no route ***?*** for *** (***)");
    }
}

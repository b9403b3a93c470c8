//! The attribute `source`: the origin of an event.

use std::borrow::Cow;

use crate::{Code, Error, Event, Result};

/// The attribute `source`. The default is `/` and the event's namespace, percent-encoded, or `/postrider` for an event
/// without one. It does not contain the producer: machines change, and consumers filter by source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Source(Option<String>);

impl Source {
    /// The same source for every event.
    ///
    /// # Errors
    /// [`Code::SourceInvalid`] if the text is empty or cannot be a URI reference.
    pub fn fixed(uri: impl Into<String>) -> Result<Self> {
        let uri = uri.into();
        let outside = uri.char_indices().find(|(_, c)| !is_uri(*c));
        let what = match outside {
            _ if uri.is_empty() => "the CloudEvents source is empty".to_owned(),
            Some((at, found)) => format!("the source {uri:?} contains {found:?} at byte {at}"),
            None => return Ok(Self(Some(uri))),
        };
        Err(Error::new(Code::SourceInvalid, what))
    }

    pub(super) fn of<'a>(&'a self, event: &'a Event) -> Cow<'a, str> {
        match (&self.0, &event.namespace) {
            (Some(fixed), _) => fixed.into(),
            (None, Some(namespace)) => format!("/{}", percent_encoded(namespace, is_unreserved)).into(),
            (None, None) => "/postrider".into(),
        }
    }
}

/// Characters of a URI, including the percent sign (RFC 3986).
fn is_uri(c: char) -> bool {
    is_unreserved(c) || ":/?#[]@!$&'()*+,;=%".contains(c)
}

fn is_unreserved(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~".contains(c)
}

/// A text with the UTF-8 bytes of every character percent-encoded, except of those for which `stays` is true.
pub(super) fn percent_encoded(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.chars().all(&stays) {
        return text.into();
    }
    let mut encoded = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if stays(c) {
            encoded.push(c);
        } else {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let digit = |nibble: u8| char::from(b"0123456789ABCDEF"[usize::from(nibble)]);
                encoded.extend(['%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    encoded.into()
}

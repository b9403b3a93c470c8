//! The receiving side: verifies that a request was signed with a known secret.

use std::fmt;
use std::time::Duration;

use postrider::inbox::Incoming;
use postrider::{Clock, Result, SystemClock, Timestamp};

use super::Key;

/// Name of the header with the event's id. It is the same in every attempt: use it to detect duplicates.
pub const WEBHOOK_ID: &str = "webhook-id";
/// Name of the header with the time of the attempt, in seconds since 1970.
pub const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
/// Name of the header with the signatures.
pub const WEBHOOK_SIGNATURE: &str = "webhook-signature";

/// Default for the maximum difference between the clocks of sender and receiver.
const TOLERANCE: Duration = Duration::from_mins(5);
/// Maximum number of signatures of one request that are checked.
const SIGNATURES_MAX: usize = 16;

/// Verifies requests that were signed according to Standard Webhooks.
///
/// ```
/// # fn main() -> postrider::Result<()> {
/// use postrider_sinks::webhook::Verifier;
///
/// let verifier = Verifier::new(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])?;
/// # let headers = std::collections::HashMap::<&str, &str>::new();
/// // The body must be the bytes that arrived, not JSON that was read and written again.
/// let body = br#"{"total": 12}"#;
/// match verifier.receive(|name| headers.get(name).copied(), body) {
///     Ok(incoming) => println!("pass {} to inbox.once(...), commit, answer 204", incoming.event_id),
///     Err(why) => println!("answer 401: {why}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Verifier {
    keys: Vec<Key>,
    tolerance: Duration,
}

impl Verifier {
    /// Accepts requests signed with any of these secrets. During a rotation, pass the old and the new one.
    ///
    /// # Errors
    /// As [`Key::parse`].
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Result<Self> {
        let keys = secrets.into_iter().map(|secret| Key::parse(secret.as_ref())).collect::<Result<_>>()?;
        Ok(Self { keys, tolerance: TOLERANCE })
    }

    /// Maximum difference between the sender's clock and this one, in either direction. The default is five minutes. An
    /// older request may be a replay.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Verifies a request by its headers and body, and returns the event's id. `header` is called with lower-case
    /// names; HTTP header names are case-insensitive, so look them up that way.
    ///
    /// # Errors
    /// The reason why the request must be rejected.
    pub fn verify<'h>(
        &self,
        header: impl Fn(&str) -> Option<&'h str>,
        body: &[u8],
    ) -> Result<&'h str, Unverified> {
        self.verify_at(SystemClock::new().now().wall, header, body)
    }

    /// As [`Verifier::verify`], with a given current time.
    ///
    /// # Errors
    /// As [`Verifier::verify`].
    pub fn verify_at<'h>(
        &self,
        now: Timestamp,
        header: impl Fn(&str) -> Option<&'h str>,
        body: &[u8],
    ) -> Result<&'h str, Unverified> {
        let needed = |name| header(name).filter(|value| !value.is_empty()).ok_or(Unverified::Missing(name));
        let (id, timestamp) = (needed(WEBHOOK_ID)?, needed(WEBHOOK_TIMESTAMP)?);
        let signatures = needed(WEBHOOK_SIGNATURE)?;
        let seconds: i64 = timestamp.parse().map_err(|_| Unverified::TimestampInvalid)?;
        let sent =
            Timestamp::from_micros(seconds.checked_mul(1_000_000).ok_or(Unverified::TimestampInvalid)?);
        if sent.until(now) > self.tolerance {
            return Err(Unverified::TooOld);
        }
        if now.until(sent) > self.tolerance {
            return Err(Unverified::TooNew);
        }
        let mut supported =
            signatures.split(' ').take(SIGNATURES_MAX).filter_map(|one| one.strip_prefix("v1,"));
        let genuine = supported.any(|signature| {
            // Checks every key, so that the time taken does not reveal which one matched.
            self.keys.iter().fold(false, |found, key| key.signed(signature, id, timestamp, body) | found)
        });
        if genuine { Ok(id) } else { Err(Unverified::NotSigned) }
    }
}

impl Verifier {
    /// Checks a request as [`Verifier::verify`] does, and returns what an inbox needs: the event's id, which the signature
    /// covers, and the trace, which it does not.
    ///
    /// Answer 2xx after the transaction with the inbox row is committed, never before; also to a duplicate. Answer 401 to
    /// an error of this method, and 5xx to every other one: the relay then delivers the event again.
    ///
    /// # Errors
    /// As [`Verifier::verify`], and [`Unverified::IdInvalid`] if the id is not a UUID.
    pub fn receive<'h>(
        &self,
        header: impl Fn(&str) -> Option<&'h str>,
        body: &[u8],
    ) -> Result<Incoming, Unverified> {
        let id = self.verify(&header, body)?.parse().map_err(|_| Unverified::IdInvalid)?;
        Ok(Incoming::with_id(id, header))
    }
}

/// Why a request was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unverified {
    /// This header is missing.
    Missing(&'static str),
    /// The timestamp is not a number of seconds.
    TimestampInvalid,
    /// The request is older than the tolerance.
    TooOld,
    /// The timestamp is further in the future than the tolerance allows.
    TooNew,
    /// No signature matches a known key.
    NotSigned,
    /// The request is genuine, but its id is not a UUID.
    IdInvalid,
}

impl fmt::Display for Unverified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "the header {name} is missing"),
            Self::TimestampInvalid => f.write_str("the timestamp is not a number of seconds since 1970"),
            Self::TooOld => f.write_str("the request is too old"),
            Self::TooNew => f.write_str("the timestamp of the request is in the future"),
            Self::NotSigned => f.write_str("no signature matches a known key"),
            Self::IdInvalid => f.write_str("the id is not a UUID"),
        }
    }
}

impl std::error::Error for Unverified {}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;

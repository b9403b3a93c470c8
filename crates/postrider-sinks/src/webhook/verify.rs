//! The receiving side: is this request from a sender that knows the secret?

use std::fmt;
use std::time::Duration;

use postrider::inbox::Incoming;
use postrider::{Clock, Result, SystemClock, Timestamp};

use super::Key;

/// Name of the header with the event's id. The same in every try: use it to tell duplicates.
pub const WEBHOOK_ID: &str = "webhook-id";
/// Name of the header with the time of the try, in seconds since 1970.
pub const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
/// Name of the header with the signatures.
pub const WEBHOOK_SIGNATURE: &str = "webhook-signature";

/// How far the two clocks may be apart unless the receiver says otherwise.
const TOLERANCE: Duration = Duration::from_mins(5);
/// Signatures of one request that are looked at.
const SIGNATURES_MAX: usize = 16;

/// Checks requests that were signed as Standard Webhooks says.
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
    /// Accepts what any of these secrets signed. During a rotation, give the old and the new one.
    ///
    /// # Errors
    /// As [`Key::parse`].
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Result<Self> {
        let keys = secrets.into_iter().map(|secret| Key::parse(secret.as_ref())).collect::<Result<_>>()?;
        Ok(Self { keys, tolerance: TOLERANCE })
    }

    /// How far the sender's clock may be from ours, either way. The default is five minutes. What is older may
    /// be a copy of an earlier request.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Checks a request by its headers and body, and returns the event's id. `header` is asked for names in
    /// lower case; HTTP does not tell cases apart, so look them up the same way.
    ///
    /// # Errors
    /// Why it must be rejected.
    pub fn verify<'h>(
        &self,
        header: impl Fn(&str) -> Option<&'h str>,
        body: &[u8],
    ) -> Result<&'h str, Unverified> {
        self.verify_at(SystemClock::new().now().wall, header, body)
    }

    /// As [`Verifier::verify`], at a moment the caller names.
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
        let mut of_ours =
            signatures.split(' ').take(SIGNATURES_MAX).filter_map(|one| one.strip_prefix("v1,"));
        let genuine = of_ours.any(|signature| {
            // Every key is asked, so that the time taken does not tell which one it was.
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
    /// This header is not there.
    Missing(&'static str),
    /// The timestamp is not a number of seconds.
    TimestampInvalid,
    /// The request is older than the tolerance.
    TooOld,
    /// The request is from further in the future than the tolerance.
    TooNew,
    /// None of its signatures is of one of our keys.
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

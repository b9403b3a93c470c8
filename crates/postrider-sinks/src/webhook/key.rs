//! Keys that sign requests, in the format of Standard Webhooks.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use postrider::{Code, Error, Result};
use sha2::Sha256;

/// The prefix of a key in text form.
const PREFIX: &str = "whsec_";
/// Number of bytes that a key may have according to the specification.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A shared secret. It is never printed.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl Key {
    /// Reads `whsec_` and the key's bytes in base64; the prefix may be left out.
    ///
    /// # Errors
    /// [`Code::SinkOpen`] if it is not base64 of 24 to 64 bytes. The message does not contain the secret.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let bytes = STANDARD.decode(text.strip_prefix(PREFIX).unwrap_or(text)).map_err(|_| {
            Error::new(Code::SinkOpen, "the webhook secret must be \"whsec_\" followed by base64")
        })?;
        if !KEY_BYTES.contains(&bytes.len()) {
            let (min, max) = (KEY_BYTES.start(), KEY_BYTES.end());
            let what = format!("the webhook secret has {} bytes; it needs {min} to {max}", bytes.len());
            return Err(Error::new(Code::SinkOpen, what));
        }
        let mac = Hmac::new_from_slice(&bytes)
            .map_err(|_| Error::new(Code::SinkOpen, "the webhook secret cannot be used as a key"))?;
        Ok(Self(mac))
    }

    /// The signature of a request: `v1,` and the HMAC-SHA256 of `id.timestamp.body` in base64.
    pub fn sign(&self, id: &str, timestamp_seconds: i64, body: &[u8]) -> String {
        let code = self.over(id, &timestamp_seconds.to_string(), body).finalize().into_bytes();
        format!("v1,{}", STANDARD.encode(code))
    }

    /// Whether this is the signature that [`Key::sign`] returns, without its `v1,`. Runs in constant time.
    pub(super) fn signed(&self, signature: &str, id: &str, timestamp: &str, body: &[u8]) -> bool {
        let Ok(code) = STANDARD.decode(signature) else { return false };
        self.over(id, timestamp, body).verify_slice(&code).is_ok()
    }

    fn over(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let parts = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
        parts.into_iter().fold(self.0.clone(), |mac, part| mac.chain_update(part))
    }
}

impl PartialEq for Key {
    /// Compares signatures, because the key's bytes are not kept.
    fn eq(&self, other: &Self) -> bool {
        self.sign("", 0, b"") == other.sign("", 0, b"")
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    /// The vector that the reference libraries of Standard Webhooks share.
    #[test]
    fn the_signature_is_that_of_the_specification() {
        for secret in [SECRET, SECRET.trim_start_matches(PREFIX)] {
            let signature = Key::parse(secret).unwrap().sign(
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                1_614_265_330,
                br#"{"test": 2432232314}"#,
            );
            assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        }
    }

    #[test]
    fn a_secret_that_is_none_is_refused_without_a_word_of_it() {
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        for bad in
            ["", "whsec_", "whsec_not*base64", "whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &of(23), &of(65)]
        {
            let error = Key::parse(bad).unwrap_err().report();
            assert!(bad.is_empty() || bad == "whsec_" || !error.contains(bad), "{error}");
        }
        for good in [of(24), of(64), format!("{SECRET}\n")] {
            assert!(Key::parse(&good).is_ok());
        }
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", Key::parse(SECRET).unwrap()), "***");
    }
}

//! What an answer of a registry means.

use serde_json::Value;

/// An answer that a registry gives when it works.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Ok(Value),
    /// It does not know the subject or the schema.
    Unknown,
    /// It does not accept the schema, with its words.
    Refused(String),
}

/// Codes of an unknown subject, version or schema.
const UNKNOWN: [u64; 3] = [40401, 40402, 40403];

/// The registry's words are shortened: they may contain the whole schema.
const WORDS_CHARS_MAX: usize = 400;

impl Answer {
    /// # Errors
    /// Why the registry cannot be used now, as the end of a sentence.
    pub(super) fn of(status: u16, body: &[u8]) -> Result<Self, String> {
        let json: Option<Value> = serde_json::from_slice(body).ok().filter(Value::is_object);
        let code = json.as_ref().and_then(|json| json.get("error_code")).and_then(Value::as_u64);
        let words = || {
            let message = json.as_ref().and_then(|json| json.get("message")).and_then(Value::as_str);
            shortened(message.unwrap_or("it gives no reason"))
        };
        match (status, json.clone(), code) {
            (200..=299, Some(json), _) => Ok(Self::Ok(json)),
            (200..=299, None, _) => Err("its answer is not JSON; check the URL".into()),
            (404, _, Some(code)) if UNKNOWN.contains(&code) => Ok(Self::Unknown),
            (404, _, _) => Err("404 Not Found; check the path of the URL".into()),
            (401 | 403, _, _) => Err(format!("it refuses the login ({status})")),
            (300..=399, _, _) => {
                Err(format!("it redirects ({status}), which is not followed; use the final URL"))
            }
            (400 | 409 | 422, Some(_), _) => Ok(Self::Refused(format!("{} ({status})", words()))),
            (status, _, _) => Err(format!("it answers {status}")),
        }
    }
}

/// A number that is an id or a version. Consumers read it with a sign.
pub(super) fn number(json: &Value, name: &str) -> Option<u32> {
    let number: i32 = json.get(name)?.as_i64()?.try_into().ok()?;
    number.try_into().ok()
}

/// The beginning of a text, on one line.
pub(super) fn shortened(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(WORDS_CHARS_MAX) {
        Some((end, _)) => format!("{}...", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_registrys_own_404_means_that_a_schema_is_unknown() {
        let of = |status, body: &str| Answer::of(status, body.as_bytes());
        assert_eq!(of(404, r#"{"error_code":40401,"message":"no"}"#), Ok(Answer::Unknown));
        assert_eq!(of(404, r#"{"error_code":40403}"#), Ok(Answer::Unknown));
        for (status, body) in [
            (404, "<html>"),
            (404, r#"{"error_code":404}"#),
            (200, "<html>"),
            (200, "[]"),
            (401, r#"{"error_code":40101}"#),
            (403, ""),
            (302, ""),
            (500, r#"{"error_code":50001}"#),
            (503, ""),
            (429, ""),
            (422, "<html>"),
        ] {
            assert!(of(status, body).is_err(), "{status} {body}");
        }
    }

    #[test]
    fn a_refusal_has_the_registrys_words_on_one_line() {
        let refused = Answer::of(409, br#"{"error_code":409,"message":"field a\n is missing"}"#);
        assert_eq!(refused, Ok(Answer::Refused("field a  is missing (409)".into())));
        let long = format!(r#"{{"error_code":42201,"message":"{}"}}"#, "é".repeat(10_000));
        let Ok(Answer::Refused(words)) = Answer::of(422, long.as_bytes()) else { panic!("not refused") };
        assert!(words.chars().count() < 420, "{words}");
    }
}

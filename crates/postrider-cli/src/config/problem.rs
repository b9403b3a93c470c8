//! A problem with the configuration.

use postrider::{Code, Error};
use serde_json::json;

use super::origin::Origin;

/// What is wrong, where, and what to do. Contains no secret; the code that creates it is responsible for that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The stable code.
    pub code: Code,
    /// Where the problem is, if it has a place.
    pub origin: Option<Origin>,
    /// The affected key, such as `sink.out.path`.
    pub key: Option<String>,
    what: String,
    hint: Option<String>,
}

impl Problem {
    /// A problem with its code and message.
    pub fn new(code: Code, what: impl Into<String>) -> Self {
        Self { code, origin: None, key: None, what: what.into(), hint: None }
    }

    /// Sets where the problem is.
    #[must_use]
    pub fn at(mut self, origin: &Origin) -> Self {
        self.origin = Some(origin.clone());
        self
    }

    /// Sets the affected key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Replaces the code's general hint with one for this case.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Names the part that the problem is about.
    #[must_use]
    pub(super) fn about(mut self, part: &str) -> Self {
        self.what = format!("{} ({part})", self.what);
        self
    }

    /// As JSON.
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "code": self.code.to_string(),
            "key": self.key,
            "origin": self.origin.as_ref().map(ToString::to_string),
            "what": self.what,
            "effect": self.code.effect(),
            "hint": self.hint.as_deref().unwrap_or(self.code.hint()),
        })
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        let what = match &problem.origin {
            // A default is never wrong, and a missing key has no place.
            None | Some(Origin::Default) => problem.what,
            Some(origin) => format!("{origin}: {}", problem.what),
        };
        let error = Self::new(problem.code, what);
        match problem.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}

//! Something wrong with the configuration.

use postrider::{Code, Error};
use serde_json::json;

use super::origin::Origin;

/// What is wrong, where, and what to do. Holds no secret: the code that makes one sees to that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The stable code.
    pub code: Code,
    /// Where the mistake stands, if it stands anywhere.
    pub origin: Option<Origin>,
    /// The key it is about, as `sink.out.path`.
    pub key: Option<String>,
    what: String,
    hint: Option<String>,
}

impl Problem {
    /// A problem and the sentence that tells it.
    pub fn new(code: Code, what: impl Into<String>) -> Self {
        Self { code, origin: None, key: None, what: what.into(), hint: None }
    }

    /// Says where.
    #[must_use]
    pub fn at(mut self, origin: &Origin) -> Self {
        self.origin = Some(origin.clone());
        self
    }

    /// Says which key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Advice for this case, instead of the code's general one.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// For programs.
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
            // A default cannot be wrong; what is missing has no better place than its name.
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

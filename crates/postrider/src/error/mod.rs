//! One error type: a stable code, what happened, what it means for the data, and what to do next.

mod code;
#[cfg(test)]
mod tests;

use std::fmt;

pub use code::{Code, Recovery};

/// The result type of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// What went wrong: a stable code, a message that names the thing it happened to, what it means for the data, and
/// what to do next.
///
/// `Display` is one line without the causes, so that `anyhow`, `eyre` and anything else that follows
/// [`source`](std::error::Error::source) prints each cause once:
///
/// ```text
/// [PR-0102] event 0: the type has 300 bytes; the limit is 255
/// ```
///
/// [`report`](Self::report) is the text for a terminal, [`one_line`](Self::one_line) the text for a log.
#[derive(Debug)]
pub struct Error {
    code: Code,
    message: String,
    effect: Option<String>,
    hint: Option<String>,
    source: Option<Source>,
}

impl Error {
    /// An error with its code and a sentence that names the affected object.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), effect: None, hint: None, source: None }
    }

    /// Replaces the code's general statement about the data with one for this case.
    #[must_use]
    pub fn with_effect(mut self, effect: impl Into<String>) -> Self {
        self.effect = Some(effect.into());
        self
    }

    /// Replaces the code's general hint by one for this case.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Keeps the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Replaces the message by one that names another object; code, effect, hint and causes stay.
    #[must_use]
    #[cfg(any(feature = "_writer", feature = "actions"))]
    pub(crate) fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Prefixes the sentence with the context in which it happened.
    #[must_use]
    pub fn within(mut self, context: &str) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The message, without code, causes and hint.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What the error means for the data: the text for this case, otherwise that of the code.
    pub fn effect(&self) -> &str {
        self.effect.as_deref().unwrap_or(self.code.effect())
    }

    /// What to do next: the hint for this case, otherwise that of the code.
    pub fn hint(&self) -> &str {
        self.hint.as_deref().unwrap_or(self.code.hint())
    }

    /// The message and its causes on one line, for logs. It does not contain the code: log that as a separate field.
    pub fn one_line(&self) -> String {
        let mut line = self.message.clone();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            // For a nested error of this type, the message without its code is enough.
            let nested = cause.downcast_ref::<Self>();
            let text = nested.map_or_else(|| cause.to_string(), |nested| nested.message.clone());
            // Some errors repeat their causes, and tokio-postgres prints `db error` when only the cause has details.
            if !line.contains(&text) && text != "db error" {
                line.push_str(": ");
                line.push_str(&text);
            }
            source = cause.source();
        }
        line
    }

    /// The text for a terminal, in three lines: the message with its causes, what it means for the data, what to do.
    ///
    /// ```text
    /// error[PR-0102]: event 0: the type has 300 bytes; the limit is 255
    ///   nothing was written; the transaction is unchanged and still usable
    ///   shorten it, or raise the limit in `Limits`
    /// ```
    pub fn report(&self) -> String {
        format!("error[{}]: {}\n  {}\n  {}", self.code, self.one_line(), self.effect(), self.hint())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.code, self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|s| s as _)
    }
}

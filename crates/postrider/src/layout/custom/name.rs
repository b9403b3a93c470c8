//! Names and values that a user writes in a column map.

use std::fmt;

use crate::{Code, Error, Result};

/// PostgreSQL's limit for names.
const BYTES_MAX: usize = 63;

/// The name of a column of a user-defined table. It becomes part of statements, so it is checked here and quoted there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ColumnName(String);

/// A value of a status column, checked like a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StateWord(String);

impl ColumnName {
    /// Any name of at most 63 bytes, without quotes, braces, backslashes and control characters.
    ///
    /// # Errors
    /// [`Code::NameInvalid`] for any other name.
    pub fn new(name: &str) -> Result<Self> {
        check(name, "the name of a column").map(Self)
    }

    /// The name without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// In the quotes of MySQL.
    #[cfg(feature = "_mysql")]
    pub(crate) fn in_backticks(&self) -> String {
        format!("`{}`", self.0)
    }
}

impl StateWord {
    /// Any value that would be valid as a [`ColumnName`].
    ///
    /// # Errors
    /// [`Code::NameInvalid`] for any other value.
    pub fn new(word: &str) -> Result<Self> {
        check(word, "the word for a state").map(Self)
    }

    /// A value for another purpose, which errors name as `purpose`.
    pub(super) fn of(text: &str, purpose: &str) -> Result<Self> {
        check(text, purpose).map(Self)
    }

    /// The value without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check(text: &str, purpose: &str) -> Result<String> {
    let fits = !text.is_empty() && text.len() <= BYTES_MAX;
    let is_plain = !text.chars().any(|c| c.is_control() || "'\"`\\{}".contains(c));
    if fits && is_plain {
        return Ok(text.to_owned());
    }
    Err(Error::new(Code::NameInvalid, format!("{text:?} cannot be {purpose}"))
        .with_hint("use at most 63 bytes, without quotes, braces, backslashes and control characters"))
}

impl fmt::Display for ColumnName {
    /// Quoted, for a statement.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

impl fmt::Display for StateWord {
    /// Quoted, for a statement.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_and_a_name_with_a_quote_is_refused() {
        assert_eq!(ColumnName::new("aggregateId").unwrap().to_string(), "\"aggregateId\"");
        assert_eq!(StateWord::new("not sent").unwrap().to_string(), "'not sent'");
        for bad in ["", "a\"b", "a'b", "a`b", "{table}", "a\\b", "a\nb", &"x".repeat(64)] {
            assert_eq!(ColumnName::new(bad).unwrap_err().code(), Code::NameInvalid, "{bad:?}");
            assert_eq!(StateWord::new(bad).unwrap_err().code(), Code::NameInvalid, "{bad:?}");
        }
    }
}

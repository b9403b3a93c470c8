//! Names and words that a person writes into the map of a table.

use std::fmt;

use crate::{Code, Error, Result};

/// What PostgreSQL keeps of a name.
const BYTES_MAX: usize = 63;

/// The name of a column of another program's table. It becomes part of a statement: it is checked here, and quoted where
/// it is put in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ColumnName(String);

/// A value of a state column, checked as a name is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StateWord(String);

impl ColumnName {
    /// Any name without quotes, braces, backslashes and control characters, of 63 bytes at most.
    ///
    /// # Errors
    /// [`Code::NameInvalid`] for any other name.
    pub fn new(name: &str) -> Result<Self> {
        check(name, "the name of a column").map(Self)
    }

    /// The name as it is, without quotes.
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
    /// Any word that could be the name of a column.
    ///
    /// # Errors
    /// [`Code::NameInvalid`] for any other.
    pub fn new(word: &str) -> Result<Self> {
        check(word, "the word for a state").map(Self)
    }

    /// Any text that may stand for all rows: an event's type, a header's name.
    pub(super) fn of(text: &str, called: &str) -> Result<Self> {
        check(text, called).map(Self)
    }

    /// The word as it is, without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check(text: &str, called: &str) -> Result<String> {
    let fits = !text.is_empty() && text.len() <= BYTES_MAX;
    let is_plain = !text.chars().any(|c| c.is_control() || "'\"`\\{}".contains(c));
    if fits && is_plain {
        return Ok(text.to_owned());
    }
    Err(Error::new(Code::NameInvalid, format!("{text:?} cannot be {called}"))
        .with_hint("use at most 63 bytes, without quotes, braces, backslashes and control characters"))
}

impl fmt::Display for ColumnName {
    /// Quoted, as it stands in a statement.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

impl fmt::Display for StateWord {
    /// Quoted, as it stands in a statement.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_and_one_that_could_end_its_quotes_is_refused() {
        assert_eq!(ColumnName::new("aggregateId").unwrap().to_string(), "\"aggregateId\"");
        assert_eq!(StateWord::new("not sent").unwrap().to_string(), "'not sent'");
        for bad in ["", "a\"b", "a'b", "a`b", "{table}", "a\\b", "a\nb", &"x".repeat(64)] {
            assert_eq!(ColumnName::new(bad).unwrap_err().code(), Code::NameInvalid, "{bad:?}");
            assert_eq!(StateWord::new(bad).unwrap_err().code(), Code::NameInvalid, "{bad:?}");
        }
    }
}

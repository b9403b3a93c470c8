//! Names of database objects from the configuration.

use std::fmt;
use std::str::FromStr;

use crate::{Code, Error, Result};

/// The name of a schema or a table. It becomes part of a statement, so it is checked here and quoted on insertion.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ident(String);

/// PostgreSQL truncates longer names.
const BYTES_MAX: usize = 63;

impl Ident {
    /// Accepts any name that the database accepts in quotes: capital letters, spaces, hyphens, reserved words.
    ///
    /// # Errors
    /// [`Code::NameInvalid`] for a name that is empty or longer than 63 bytes, contains a character that could end its
    /// quotes or has a meaning in statements (`'"`\{}?:` and control characters), begins or ends with a space, or is
    /// reserved by the database (`pg_...`).
    pub fn new(name: &str) -> Result<Self> {
        let fits = !name.is_empty() && name.len() <= BYTES_MAX && name.trim() == name;
        let is_plain = !name.chars().any(|c| c.is_control() || "'\"`\\{}?:".contains(c));
        if fits && is_plain && !name.starts_with("pg_") {
            return Ok(Self(name.to_owned()));
        }
        Err(Error::new(Code::NameInvalid, format!("{name:?} cannot be the name of a schema or a table")).with_hint(
            "use at most 63 bytes, without quotes, backslashes, braces, '?', ':' and control characters, not starting with pg_",
        ))
    }

    /// A name from this program's source.
    pub(crate) fn literal(name: &'static str) -> Self {
        debug_assert!(Self::new(name).is_ok(), "{name:?} is not a valid name");
        Self(name.to_owned())
    }

    /// The name without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The statement with every `{schema}` replaced by this name.
    #[cfg(any(test, feature = "_writer"))]
    pub(crate) fn put_into(&self, statement: &str) -> String {
        statement.replace("{schema}", &self.to_string())
    }

    /// The statement with every `{schema}` replaced by this name, in the quotes of MySQL.
    #[cfg(any(test, feature = "_writer"))]
    pub(crate) fn put_into_mysql(&self, statement: &str) -> String {
        statement.replace("{schema}", &format!("`{}`", self.0))
    }
}

// No `AsRef<str>`: next to a `Display` that quotes, it would let an unquoted name pass wherever a text is wanted.
impl FromStr for Ident {
    type Err = Error;

    /// As [`Ident::new`].
    fn from_str(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl TryFrom<&str> for Ident {
    type Error = Error;

    /// As [`Ident::new`].
    fn try_from(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl Default for Ident {
    /// `postrider`
    fn default() -> Self {
        Self("postrider".to_owned())
    }
}

impl fmt::Display for Ident {
    /// Quoted, for a statement.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_is_quoted_where_it_is_put_in() {
        let name = Ident::new("shop_2").unwrap();
        assert_eq!(name.put_into("SELECT 1 FROM {schema}.events"), "SELECT 1 FROM \"shop_2\".events");
        assert_eq!(name.put_into_mysql("SELECT 1 FROM {schema}.events"), "SELECT 1 FROM `shop_2`.events");
    }

    #[test]
    fn a_name_that_the_database_takes_in_quotes_is_taken() {
        for name in ["OutboxEvent", "my-app", "Legacy App", "select", "2shop", "größe", "a.b", "a$b"] {
            assert_eq!(Ident::new(name).unwrap().to_string(), format!("\"{name}\""));
        }
    }

    #[test]
    fn a_name_that_could_end_its_quotes_or_is_too_long_is_refused() {
        let long = "x".repeat(64);
        for name in [
            "",
            " ",
            "a ",
            "a\"; DROP TABLE x",
            "a`b",
            "a'b",
            "a\\b",
            "a\0b",
            "a\nb",
            "{table}",
            "a?b",
            "a:b",
            "pg_x",
            &long,
        ] {
            assert_eq!(Ident::new(name).unwrap_err().code(), Code::NameInvalid, "{name:?}");
        }
    }
}

//! Names of database objects that a person may choose.

use std::fmt;

use crate::{Code, Error, Result};

/// The name of a schema or a table. It becomes part of a statement: it is checked here, and quoted where it is put
/// in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ident(String);

/// What PostgreSQL keeps of a name.
const BYTES_MAX: usize = 63;

impl Ident {
    /// A name of lower-case letters, digits and `_`, not starting with a digit: what every tool can write
    /// without quotes.
    ///
    /// # Errors
    /// [`Code::NameInvalid`] for any other name, and for those the database keeps for itself (`pg_...`).
    pub fn new(name: &str) -> Result<Self> {
        let fits = !name.is_empty() && name.len() <= BYTES_MAX;
        let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        let starts = !name.starts_with(|c: char| c.is_ascii_digit()) && !name.starts_with("pg_");
        if fits && plain && starts {
            return Ok(Self(name.to_owned()));
        }
        Err(Error::new(Code::NameInvalid, format!("{name:?} cannot be the name of a schema or a table"))
            .hint("use lower-case letters, digits and '_', at most 63, not starting with a digit or pg_"))
    }

    /// The name of a table that somebody else has made: capital letters, too.
    ///
    /// # Errors
    /// [`Code::NameInvalid`] for any other name.
    pub fn of_table(name: &str) -> Result<Self> {
        Self::new(&name.to_ascii_lowercase()).map(|_| Self(name.to_owned()))
    }

    /// The name as it is, without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The statement with every `{schema}` replaced by this name.
    #[cfg(any(test, feature = "_postgres"))]
    pub(crate) fn put_into(&self, statement: &str) -> String {
        statement.replace("{schema}", &self.to_string())
    }

    /// The statement with every `{schema}` replaced by this name, in the quotes of MySQL.
    #[cfg(any(test, feature = "_mysql"))]
    pub(crate) fn put_into_mysql(&self, statement: &str) -> String {
        statement.replace("{schema}", &format!("`{}`", self.0))
    }
}

impl Default for Ident {
    /// `postrider`
    fn default() -> Self {
        Self("postrider".to_owned())
    }
}

impl fmt::Display for Ident {
    /// Quoted, as it stands in a statement.
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
    fn a_table_of_somebody_else_may_have_capital_letters() {
        assert_eq!(Ident::of_table("OutboxEvent").unwrap().to_string(), "\"OutboxEvent\"");
        assert!(Ident::of_table("Outbox\"Event").is_err() && Ident::of_table("PG_x").is_err());
    }

    #[test]
    fn a_name_that_would_need_care_is_refused() {
        for name in ["", "2shop", "Shop", "a-b", "a b", "a\"; DROP TABLE x", "ü", "pg_x", &"x".repeat(64)] {
            assert_eq!(Ident::new(name).unwrap_err().code(), Code::NameInvalid, "{name:?}");
        }
    }
}

//! Roles with only the rights that each needs.

use crate::write::event_column_names;
use crate::{Code, Error, Ident, Result};

const ROLES: &str = include_str!("roles.sql");

/// The maximum length of a user name in MySQL; a role is a user.
const BYTES_MAX: usize = 32;

/// The SQL that creates them for a database: `DATABASE_writer`, `_relay`, `_inbox`, `_viewer`, `_operator`,
/// `_migrator`.
///
/// # Errors
/// [`Code::NameInvalid`] if a role's name would be too long.
pub(super) fn roles(schema: &Ident) -> Result<String> {
    fill(schema, &ROLES.replace("{columns}", &event_column_names("`")))
}

/// A database in `GRANT ... ON database.*`, where `_` and `%` are wildcards unless they are escaped.
pub(super) fn database_pattern(database: &Ident) -> String {
    format!("`{}`", database.as_str().replace('_', "\\_").replace('%', "\\%"))
}

/// A script with the database and the names of its roles filled in.
///
/// # Errors
/// As for [`roles`].
pub(super) fn fill(schema: &Ident, script: &str) -> Result<String> {
    let mut sql = schema.put_into_mysql(script).replace("{database}", &database_pattern(schema));
    for role in ["writer", "relay", "inbox", "viewer", "operator", "migrator"] {
        let name = format!("{}_{role}", schema.as_str());
        if name.len() > BYTES_MAX {
            return Err(Error::new(Code::NameInvalid, format!("{name:?} is too long for a role name"))
                .with_hint(
                    "use a database name of at most 23 letters for the outbox, or create the roles manually",
                ));
        }
        sql = sql.replace(&format!("{{{role}}}"), &name);
    }
    Ok(sql)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placeholder_is_replaced() {
        let sql = roles(&Ident::new("shop").unwrap()).unwrap();
        assert!(!sql.contains('{'), "{sql}");
        assert!(sql.contains("GRANT SELECT, DELETE ON `shop`.events TO 'shop_relay';"), "{sql}");
        let sql = roles(&Ident::new("shop_outbox").unwrap()).unwrap();
        assert!(sql.contains("GRANT ALL PRIVILEGES ON `shop\\_outbox`.* TO"), "{sql}");
        assert!(sql.contains("ON `shop_outbox`.events"), "{sql}");
        assert!(roles(&Ident::new(&"x".repeat(30)).unwrap()).is_err());
    }
}

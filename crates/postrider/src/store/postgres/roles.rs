//! Roles with only the rights that each needs.

use crate::write::event_column_names;
use crate::{Code, Error, Ident, Result};

const ROLES: &str = include_str!("roles.sql");

/// The beginning of every script, `{create_roles}`.
const CREATE_ROLES: &str = include_str!("create_roles.sql");

/// The SQL that creates them for a schema: `SCHEMA_writer`, `_relay`, `_inbox`, `_viewer`, `_operator`,
/// `_migrator`.
///
/// # Errors
/// [`Code::NameInvalid`] if a role's name would be too long, or the schema's name could end the quotes of the script.
pub(super) fn roles(schema: &Ident) -> Result<String> {
    fill(schema, &ROLES.replace("{columns}", &event_column_names("")))
}

/// A script with the schema and the names of its roles filled in.
///
/// # Errors
/// As for [`roles`].
pub(super) fn fill(schema: &Ident, script: &str) -> Result<String> {
    if schema.as_str().contains('$') {
        let what = format!("the roles script does not support a schema with '$' in its name: {schema}");
        return Err(
            Error::new(Code::NameInvalid, what).with_hint("rename the schema, or create the roles manually")
        );
    }
    let mut sql = schema.put_into(&script.replace("{create_roles}\n", CREATE_ROLES));
    for role in ["writer", "relay", "inbox", "viewer", "operator", "migrator"] {
        let name = Ident::new(&format!("{}_{role}", schema.as_str()))?;
        sql = sql.replace(&format!("{{{role}}}"), &name.to_string());
        sql = sql.replace(&format!("{{{role}_name}}"), name.as_str());
    }
    Ok(sql)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placeholder_is_replaced_and_names_are_quoted() {
        let sql = roles(&Ident::new("shop").unwrap()).unwrap();
        assert!(!sql.contains('{'), "{sql}");
        assert!(sql.contains("GRANT SELECT (id, position) ON \"shop\".events TO \"shop_writer\";"), "{sql}");
        assert!(roles(&Ident::new(&"x".repeat(60)).unwrap()).is_err());
        assert!(roles(&Ident::new("a$$; DROP SCHEMA b; --").unwrap()).is_err());
    }
}

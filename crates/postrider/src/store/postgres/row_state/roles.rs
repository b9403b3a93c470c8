//! Roles of an outbox with layout `eventlog`.

use super::super::roles;
use crate::layout::RowTable;
use crate::{Ident, Result};

const ROLES: &str = include_str!("roles.sql");

/// The SQL that creates them: `SCHEMA_writer`, `_relay`, `_inbox`, `_viewer`, `_migrator`.
///
/// # Errors
/// As for the default layout.
pub(super) fn roles(schema: &Ident, table: &RowTable) -> Result<String> {
    roles::fill(schema, &table.put_into(ROLES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::RowLayout;

    #[test]
    fn every_placeholder_is_replaced() {
        let table = RowTable::new(RowLayout::Eventlog);
        let sql = roles(&Ident::new("shop").unwrap(), &table).unwrap();
        assert!(!sql.contains('{'), "{sql}");
        let relay = "GRANT SELECT, UPDATE (delivered), DELETE ON \"eventlog\".\"events\" TO \"shop_relay\";";
        assert!(sql.contains(relay), "{sql}");
    }
}

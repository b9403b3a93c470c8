//! The lease of a subscription, for the overview.

use rusqlite::{Connection, OptionalExtension};

use super::failure::Attempt;
use super::ledger::Ledger;
use crate::Timestamp;
use crate::store::LeaseOverview;

/// Expired or not.
pub(super) fn lease(snapshot: &Connection, ledger: Ledger, name: &str) -> Attempt<Option<LeaseOverview>> {
    // Index: the primary key (name).
    let sql = "SELECT holder, expires_at FROM {leases} WHERE name = ?1";
    let mut statement = snapshot.prepare_cached(&ledger.put_into(sql))?;
    let lease = statement.query_row([name], |row| {
        Ok(LeaseOverview { holder: row.get(0)?, expires_at: Timestamp::from_micros(row.get(1)?) })
    });
    Ok(lease.optional()?)
}

//! The lease of a subscription, for the overview.

use super::row::{self, get, micros};
use super::session::{Tx, params};
use crate::Result;
use crate::store::LeaseOverview;

/// Expired or not.
pub(super) async fn lease(snapshot: &mut Tx<'_>, name: &str) -> Result<Option<LeaseOverview>> {
    // Index: the primary key (name).
    let sql = concat!("SELECT holder, ", micros!("expires_at"), " FROM {schema}.leases WHERE name = ?");
    let row = snapshot.query_opt(sql, params![name]).await?;
    row.map(|row| Ok(LeaseOverview { holder: get(&row, 0)?, expires_at: row::time(&row, 1)? })).transpose()
}

//! The lease of a subscription, for the overview.

use super::row::get;
use super::session::Tx;
use super::time::Time;
use crate::Result;
use crate::store::LeaseOverview;

/// Expired or not.
pub(super) async fn lease(snapshot: &Tx<'_>, name: &str) -> Result<Option<LeaseOverview>> {
    // Index: the primary key (name).
    let sql = "SELECT holder, expires_at FROM {schema}.leases WHERE name = $1";
    let row = snapshot.query_opt(sql, &[&name]).await?;
    row.map(|row| Ok(LeaseOverview { holder: get(&row, 0)?, expires_at: get::<Time>(&row, 1)?.0 }))
        .transpose()
}

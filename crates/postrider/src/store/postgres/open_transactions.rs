//! The oldest transaction that is open in the database.

use super::row::get;
use super::session::Tx;
use super::time::Time;
use crate::{Result, Timestamp};

/// Transactions that have written something, prepared ones included. Times of other users' transactions are visible only
/// with the role `pg_read_all_stats`. Index: none; there are as many rows as connections.
const OLDEST: &str = "
    SELECT min(began)
    FROM (SELECT xact_start AS began FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xid IS NOT NULL
          UNION ALL
          SELECT prepared FROM pg_prepared_xacts WHERE database = current_database()) AS transactions";

/// See [`Overview::oldest_transaction`](crate::store::Overview::oldest_transaction).
pub(super) async fn oldest(snapshot: &Tx<'_>) -> Result<Option<Option<Timestamp>>> {
    let row = snapshot.query_opt(OLDEST, &[]).await?;
    let began = row.map(|row| get::<Option<Time>>(&row, 0)).transpose()?;
    Ok(began.map(|began| began.map(|time| time.0)))
}

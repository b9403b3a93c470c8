//! The oldest transaction that is open on the server.

use super::row::get_opt;
use super::session::{Params, Tx};
use crate::{Result, Timestamp};

/// Transactions that have changed rows. `trx_started` is in the time zone of the session, so only its distance from now is
/// used. Index: none; there are as many rows as transactions.
const OLDEST: &str = "
    SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01',
               UTC_TIMESTAMP(6) - INTERVAL MAX(TIMESTAMPDIFF(SECOND, trx_started, NOW())) SECOND)
    FROM information_schema.innodb_trx
    WHERE trx_rows_modified > 0 AND trx_mysql_thread_id <> CONNECTION_ID()";

/// See [`Overview::oldest_transaction`](crate::store::Overview::oldest_transaction). Without the privilege PROCESS the server
/// refuses the list; `doctor` reports that.
pub(super) async fn oldest(snapshot: &mut Tx<'_>) -> Result<Option<Option<Timestamp>>> {
    let Ok(rows) = snapshot.query(OLDEST, Params::new()).await else { return Ok(None) };
    let began = rows.first().map(|row| get_opt::<i64>(row, 0)).transpose()?.flatten();
    Ok(Some(began.map(Timestamp::from_micros)))
}

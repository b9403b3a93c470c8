//! Retention by the rule of each layout, in short transactions.

use super::super::maintain::clock;
use super::super::session::{Params, Tx};
use super::own;
use super::sql::Sql;
use crate::Result;
use crate::layout::RowTable;
use crate::store::{Purge, Purged, RetentionScope};

/// See [`Store::purge`](crate::store::Store::purge). What is delivered says so itself, so there is no cursor.
pub(super) async fn trim(work: &mut Tx<'_>, sql: &Sql, table: &RowTable, trim: &Purge) -> Result<Purged> {
    let cutoff = trim.cutoff(clock(work).await?).as_micros();
    // Before 1970 there was nothing, and to a TIMESTAMP there is no such time.
    if cutoff <= 0 {
        return Ok(Purged { reached: trim.after, ..Purged::default() });
    }
    if trim.scope == RetentionScope::Own {
        let (deleted, looked_at) = own::trim(work, sql, table, cutoff, trim.events_max).await?;
        return Ok(Purged { deleted, reached: trim.after, more: looked_at >= trim.events_max, held: None });
    }
    let mut deleted = 0;
    for statement in sql.trim {
        let times = statement.matches('?').count();
        let statement = statement.replace("{most}", &trim.events_max.to_string());
        deleted = work.execute(&statement, Params::from(vec![cutoff.into(); times])).await?.max(deleted);
    }
    let more = deleted >= trim.events_max as u64;
    Ok(Purged { deleted, reached: trim.after, more, held: None })
}

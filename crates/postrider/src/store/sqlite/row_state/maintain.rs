//! Retention by the rule of the seed, in short transactions.

use rusqlite::{Connection, params};

use super::super::failure::Attempt;
use super::super::lease::now;
use super::own;
use super::sql::Names;
use crate::Timestamp;
use crate::store::row_state::scope;
use crate::store::{Purge, Purged, RetentionScope};

/// See [`Store::purge`](crate::store::Store::purge). What is delivered says so itself, so there is no cursor.
pub(super) fn trim(tx: &Connection, names: &Names, trim: &Purge) -> Attempt<Purged> {
    let cutoff = trim.cutoff(Timestamp::from_micros(now(tx)?)).as_micros();
    // Before 1970 there was nothing.
    if cutoff <= 0 {
        return Ok(Purged { reached: trim.after, ..Purged::default() });
    }
    let most = i64::try_from(trim.events_max).unwrap_or(i64::MAX);
    if scope(trim, &names.table) == RetentionScope::Own {
        let (deleted, looked_at) = own::trim(tx, names, cutoff, most)?;
        let more = looked_at >= trim.events_max;
        return Ok(Purged { deleted: deleted as u64, reached: trim.after, more, held: None });
    }
    let mut deleted = 0;
    for statement in names.sql.trim {
        deleted = tx.prepare_cached(&names.put_into(statement))?.execute(params![cutoff, most])?;
    }
    let more = deleted >= trim.events_max;
    Ok(Purged { deleted: deleted as u64, reached: trim.after, more, held: None })
}

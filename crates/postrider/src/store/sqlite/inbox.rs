//! Deleting expired rows of the inbox; see [`Store::purge_inbox`](crate::store::Store::purge_inbox).

use rusqlite::{Connection, params};

use super::failure::Attempt;
use crate::inbox::sqlite::DELETE_EXPIRED;
use crate::store::{InboxPurge, InboxPurged};

pub(super) fn purge(tx: &Connection, purge: &InboxPurge) -> Attempt<InboxPurged> {
    let (age, most) = purge.limits();
    let deleted = tx.prepare_cached(DELETE_EXPIRED)?.execute(params![age, most])?;
    Ok(purge.deleted(deleted as u64))
}

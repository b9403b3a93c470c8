//! Deleting and listing rows of the inbox.

use rusqlite::{Connection, Row, params};

use super::failure::Attempt;
use crate::Timestamp;
use crate::inbox::sqlite::DELETE_EXPIRED;
use crate::operate::{InboxItem, InboxKind, InboxRead, InboxRows};
use crate::store::{InboxPurge, InboxPurged, row_limit};

/// See [`Store::purge_inbox`](crate::store::Store::purge_inbox).
pub(super) fn purge(tx: &Connection, purge: &InboxPurge) -> Attempt<InboxPurged> {
    let (age, most) = purge.limits();
    let deleted = tx.prepare_cached(DELETE_EXPIRED)?.execute(params![age, most])?;
    Ok(purge.deleted(deleted as u64))
}

/// `?1` the consumer after which to look. Index: the primary key (consumer_group, event_id).
const NEXT_CONSUMER: &str = "
    SELECT consumer_group, event_id, processed_at, expires_at
    FROM postrider_inbox
    WHERE consumer_group > ?1
    ORDER BY consumer_group
    LIMIT 1";

/// `?1` consumer, `?2` from which id, `?3` whether with that id, `?4` how many. Index: the primary key (consumer_group,
/// event_id).
const ROWS_OF: &str = "
    SELECT consumer_group, event_id, processed_at, expires_at
    FROM postrider_inbox
    WHERE consumer_group = ?1 AND event_id >= ?2 AND (event_id <> ?2 OR ?3)
    ORDER BY event_id
    LIMIT ?4";

/// See [`Store::read_inbox`](crate::store::Store::read_inbox).
pub(super) fn read(snapshot: &Connection, read: &InboxRead) -> Attempt<Vec<InboxItem>> {
    if read.table != InboxKind::Inbox {
        return Ok(Vec::new());
    }
    let item = |row: &Row<'_>| {
        let id: String = row.get(1)?;
        let id = id.parse().map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, Box::new(error))
        })?;
        let time = |at| row.get(at).map(Timestamp::from_micros);
        Ok(InboxItem::new(read.table, (row.get(0)?, id), time(2)?, time(3)?))
    };
    let found = match &read.rows {
        InboxRows::NextConsumer(after) => snapshot
            .prepare_cached(NEXT_CONSUMER)?
            .query_map([after], item)?
            .collect::<Result<Vec<_>, _>>()?,
        InboxRows::Of { consumer, from, inclusive, rows_max } => {
            let params = params![consumer, from.to_string(), inclusive, row_limit(*rows_max)];
            snapshot.prepare_cached(ROWS_OF)?.query_map(params, item)?.collect::<Result<Vec<_>, _>>()?
        }
    };
    Ok(found)
}

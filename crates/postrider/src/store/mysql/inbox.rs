//! Deleting and listing rows of the inbox.

use mysql_async::Row;

use super::connection::Guard;
use super::row::{get, uuid};
use super::session::params;
use crate::inbox::mysql::DELETE_EXPIRED;
use crate::operate::{InboxItem, InboxKind, InboxRead, InboxRows};
use crate::store::{InboxPurge, InboxPurged, row_limit};
use crate::{Result, Timestamp};

/// See [`Store::purge_inbox`](crate::store::Store::purge_inbox).
pub(super) async fn purge(conn: &mut Guard<'_>, purge: &InboxPurge) -> Result<InboxPurged> {
    let (age, most) = purge.limits();
    let mut tx = conn.begin().await?;
    let deleted = tx.execute(DELETE_EXPIRED, params![age, most]).await;
    tx.finish(deleted).await.map(|deleted| purge.deleted(deleted))
}

/// The consumer after which to look. Index: the primary key (consumer_group, event_id).
const NEXT_CONSUMER: &str = "
    SELECT consumer_group, event_id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', processed_at),
           TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expires_at)
    FROM {schema}.inbox
    WHERE consumer_group > ?
    ORDER BY consumer_group
    LIMIT 1";

/// The consumer, from which id, that id again, whether with it, how many. Index: the primary key (consumer_group, event_id).
const ROWS_OF: &str = "
    SELECT consumer_group, event_id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', processed_at),
           TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expires_at)
    FROM {schema}.inbox
    WHERE consumer_group = ? AND event_id >= ? AND (event_id <> ? OR ?)
    ORDER BY event_id
    LIMIT ?";

/// See [`Store::read_inbox`](crate::store::Store::read_inbox).
pub(super) async fn read(conn: &mut Guard<'_>, read: &InboxRead) -> Result<Vec<InboxItem>> {
    if read.table != InboxKind::Inbox {
        return Ok(Vec::new());
    }
    let mut tx = conn.begin_read().await?;
    let found = match &read.rows {
        InboxRows::NextConsumer(after) => tx.query(NEXT_CONSUMER, params![after.as_str()]).await,
        InboxRows::Of { consumer, from, inclusive, rows_max } => {
            let id = from.as_bytes().to_vec();
            let limit = row_limit(*rows_max);
            tx.query(ROWS_OF, params![consumer.as_str(), id.clone(), id, *inclusive, limit]).await
        }
    };
    let time = |row: &Row, at| get::<i64>(row, at).map(Timestamp::from_micros);
    let item = |row: &Row| {
        let key = (get(row, 0)?, uuid(row, 1)?);
        Ok(InboxItem::new(read.table, key, time(row, 2)?, time(row, 3)?))
    };
    tx.finish(found).await?.iter().map(item).collect()
}

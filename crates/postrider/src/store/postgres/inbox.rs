//! Deleting and listing rows of the inbox.

use tokio_postgres::Row;

use super::connection::Guard;
use super::row::get;
use super::session::Tx;
use super::time::Time;
use crate::Result;
use crate::inbox::postgres::DELETE_EXPIRED;
use crate::operate::{InboxItem, InboxKind, InboxRead, InboxRows};
use crate::store::{InboxPurge, InboxPurged, row_limit};

/// See [`Store::purge_inbox`](crate::store::Store::purge_inbox).
pub(super) async fn purge(conn: &mut Guard<'_>, purge: &InboxPurge) -> Result<InboxPurged> {
    let (age, most) = purge.limits();
    let tx = conn.begin().await?;
    let deleted = tx.execute(DELETE_EXPIRED, &[&age, &most]).await?;
    tx.commit().await.map(|()| purge.deleted(deleted))
}

/// `$1` the consumer after which to look. Index: the primary key, or that over consumer_group.
macro_rules! next_consumer {
    ($table:literal) => {
        concat!(
            "SELECT consumer_group::text, event_id, processed_at, expires_at FROM ",
            $table,
            " WHERE consumer_group > $1::text ORDER BY consumer_group LIMIT 1"
        )
    };
}

/// `$1` consumer, `$2` from which id, `$3` whether with that id, `$4` how many. Index: the primary key.
macro_rules! rows_of {
    ($table:literal) => {
        concat!(
            "SELECT consumer_group::text, event_id, processed_at, expires_at FROM ",
            $table,
            " WHERE consumer_group = $1::text AND event_id >= $2::uuid AND (event_id <> $2::uuid OR $3::boolean)
              ORDER BY event_id
              LIMIT $4::bigint"
        )
    };
}

/// See [`Store::read_inbox`](crate::store::Store::read_inbox).
pub(super) async fn read(tx: &Tx<'_>, read: &InboxRead) -> Result<Vec<InboxItem>> {
    let found = match (&read.rows, read.table) {
        (InboxRows::NextConsumer(after), InboxKind::ProcessedEvents) => {
            tx.query(next_consumer!("{processed}"), &[after]).await?
        }
        (InboxRows::NextConsumer(after), _) => tx.query(next_consumer!("{schema}.inbox"), &[after]).await?,
        (InboxRows::Of { consumer, from, inclusive, rows_max }, table) => {
            let sql = match table {
                InboxKind::ProcessedEvents => rows_of!("{processed}"),
                InboxKind::Inbox => rows_of!("{schema}.inbox"),
            };
            tx.query(sql, &[consumer, from, inclusive, &row_limit(*rows_max)]).await?
        }
    };
    let item = |row: &Row| {
        let key = (get(row, 0)?, get(row, 1)?);
        Ok(InboxItem::new(read.table, key, get::<Time>(row, 2)?.0, get::<Time>(row, 3)?.0))
    };
    found.iter().map(item).collect()
}

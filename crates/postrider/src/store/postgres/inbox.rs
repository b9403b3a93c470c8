//! Deleting expired rows of the inbox; see [`Store::purge_inbox`](crate::store::Store::purge_inbox).

use super::connection::Guard;
use crate::Result;
use crate::inbox::postgres::DELETE_EXPIRED;
use crate::store::{InboxPurge, InboxPurged};

pub(super) async fn purge(conn: &mut Guard<'_>, purge: &InboxPurge) -> Result<InboxPurged> {
    let (age, most) = purge.limits();
    let tx = conn.begin().await?;
    let deleted = tx.execute(DELETE_EXPIRED, &[&age, &most]).await?;
    tx.commit().await.map(|()| purge.deleted(deleted))
}

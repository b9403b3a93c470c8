//! Deleting expired rows of the inbox; see [`Store::purge_inbox`](crate::store::Store::purge_inbox).

use super::connection::Guard;
use super::session::params;
use crate::Result;
use crate::inbox::mysql::DELETE_EXPIRED;
use crate::store::{InboxPurge, InboxPurged};

pub(super) async fn purge(conn: &mut Guard<'_>, purge: &InboxPurge) -> Result<InboxPurged> {
    let (age, most) = purge.limits();
    let mut tx = conn.begin().await?;
    let deleted = tx.execute(DELETE_EXPIRED, params![age, most]).await;
    tx.finish(deleted).await.map(|deleted| purge.deleted(deleted))
}

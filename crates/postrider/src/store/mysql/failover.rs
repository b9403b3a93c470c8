//! Whether a subscription may go on after the server became another.

use super::history::{last_position, mark_at_or_below};
use super::progress::SubscriptionRow;
use super::session::{Tx, params};
use crate::Result;
use crate::store::{AfterFailover, history};

/// Why the subscription must halt, if the progress is about another server's history and may not go on with this
/// one's. If it may, the new server is written down. The row of the subscription is locked.
///
/// Two servers of these kinds share nothing that would prove a common past, so with
/// [`AfterFailover::Check`] the events themselves have to: there must be a highest event seen, and it must stand
/// where it stood.
pub(super) async fn refusal(
    tx: &mut Tx<'_>,
    name: &str,
    row: &SubscriptionRow,
    choice: AfterFailover,
) -> Result<Option<String>> {
    let now = tx.server().history.clone();
    let Some(known) = row.history.as_deref().filter(|known| *known != now) else {
        return Ok(None);
    };
    let moved = format!(
        "the progress belongs to the server {known}, but this server is {now}: it was failed over or restored, \
         and may have lost events that were already published"
    );
    if choice == AfterFailover::Halt || row.progress.highest.is_none() {
        let offer = crate::store::history::floor_offer(row.progress.done.floor());
        return Ok(Some(format!("{moved}. {offer}")));
    }
    if let Some(change) = change(tx, row).await? {
        return Ok(Some(format!("{moved}; {change}")));
    }
    // Index: the primary key (name).
    let sql = "UPDATE {schema}.subscriptions SET history = ? WHERE name = ?";
    tx.execute(sql, params![now.as_str(), name]).await?;
    tracing::warn!(
        subscription = name,
        before = known,
        now,
        "the database was failed over and the last event seen still exists: continuing. Events that were \
         published and then lost by the failover would not be noticed"
    );
    Ok(None)
}

/// What the progress knows and the events do not bear out, if anything.
async fn change(tx: &mut Tx<'_>, row: &SubscriptionRow) -> Result<Option<String>> {
    let (done, highest) = (&row.progress.done, row.progress.highest);
    let seen = highest.map_or(done.highest(), |mark| mark.position.max(done.highest()));
    let found = match highest {
        Some(mark) => mark_at_or_below(tx, mark.position).await?.filter(|at| at.position == mark.position),
        None => None,
    };
    Ok(history::change(last_position(tx).await?, seen, highest, found.map(|mark| mark.id)))
}

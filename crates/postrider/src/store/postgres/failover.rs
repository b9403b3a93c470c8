//! Whether a subscription may go on after the server became another.

use super::history::{Incarnation, last_position, mark_at_or_below};
use super::progress::SubscriptionRow;
use super::session::Tx;
use crate::Result;
use crate::store::{AfterFailover, history};

/// Why the subscription must halt, if the progress is about another history than the server's and may not go
/// on with it. If it may, the new history is written down. `back` is what else speaks against it. The row of the
/// subscription and the events are locked.
pub(super) async fn refusal(
    tx: &Tx<'_>,
    name: &str,
    row: &SubscriptionRow,
    server: &Incarnation,
    choice: AfterFailover,
    back: Option<&str>,
) -> Result<Option<String>> {
    let Some(known) = row.history.as_deref().filter(|known| *known != server.history) else {
        return Ok(None);
    };
    let now = &server.history;
    let moved = format!(
        "the progress belongs to the cluster and timeline {known}, but the server is at {now}: it was failed \
         over or restored, and may have lost events that were already published"
    );
    if let Some(back) = back {
        return Ok(Some(format!("{moved}; {back}")));
    }
    if choice == AfterFailover::Halt || !is_later(known, now) {
        return Ok(Some(format!("{moved}. {}", history::floor_offer(row.progress.done.floor()))));
    }
    if let Some(change) = change(tx, row).await? {
        return Ok(Some(format!("{moved}; {change}")));
    }
    // Index: the primary key (name).
    let sql = "UPDATE {schema}.subscriptions SET history = $2 WHERE name = $1";
    tx.execute(sql, &[&name, &now.as_str()]).await?;
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
async fn change(tx: &Tx<'_>, row: &SubscriptionRow) -> Result<Option<String>> {
    let (done, highest) = (&row.progress.done, row.progress.highest);
    let seen = highest.map_or(done.highest(), |mark| mark.position.max(done.highest()));
    let found = match highest {
        Some(mark) => mark_at_or_below(tx, mark.position).await?.filter(|at| at.position == mark.position),
        None => None,
    };
    Ok(history::change(last_position(tx).await?, seen, highest, found.map(|mark| mark.id)))
}

/// Whether a history is a later timeline of the same cluster. Both are `CLUSTER/TIMELINE`, the timeline in
/// hexadecimal of a fixed length. Progress about a later timeline than the server's cannot have come with it.
fn is_later(known: &str, now: &str) -> bool {
    match (known.rsplit_once('/'), now.rsplit_once('/')) {
        (Some((cluster, before)), Some((same, after))) => {
            cluster == same && before.len() == after.len() && before < after
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_later_timeline_of_the_same_cluster_is_a_failover() {
        assert!(is_later("71/00000001", "71/00000002") && is_later("71/00000009", "71/0000000A"));
        for (known, now) in [
            ("71/00000002", "71/00000001"),
            ("71/00000001", "72/00000002"),
            ("71/00000001", "71/00000001"),
            ("71", "71/00000002"),
            ("71/1", "71/00000002"),
        ] {
            assert!(!is_later(known, now), "{known} {now}");
        }
    }
}

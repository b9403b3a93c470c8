//! Events of layout `eventlog` that another program fanned out without a handler registered here: the search for them, and
//! inserting their notifications.

use std::collections::BTreeSet;
use std::time::Duration;

use super::dialect::{RowConnection, RowTx, TxVerb};
use super::handler_types::{HandlerType, RegisteredType, handler_types, needs_types, whole_types};
use super::notifications::{NotificationTx, TYPES_MAX, concerns_row, verb, wait_for_lock};
use crate::store::{FannedOut, MissedNotification, MissedPage, MissedSearch, RefusedEvent};
use crate::{Result, Timestamp};

/// A search for missed events begins this long before the last one: a transaction of another program may mark an event
/// and commit after the search.
const SEARCH_OVERLAP: Duration = Duration::from_secs(24 * 60 * 60);

/// How many missed notifications one page has at most. It bounds the memory of a search: about 3 MB.
pub(super) const MISSED_PAGE_MAX: usize = 10_000;

/// Inserts missed notifications, one by one if the table refuses some of them.
pub(super) async fn insert(
    connection: &mut impl RowConnection,
    missed: &[MissedNotification],
) -> Result<FannedOut> {
    if missed.is_empty() {
        return Ok(FannedOut::default());
    }
    let events: BTreeSet<&str> = missed.iter().map(|missed| missed.event.as_str()).collect();
    let mut all = FannedOut { events: events.len() as u64, ..FannedOut::default() };
    match connection.write(InsertMissed { missed: missed.to_vec() }).await {
        Err(error) if concerns_row(error.code()) => {}
        Ok(inserted) => return Ok(FannedOut { notifications: inserted, ..all }),
        Err(error) => return Err(error),
    }
    for one in missed {
        match connection.write(InsertMissed { missed: vec![one.clone()] }).await {
            Ok(inserted) => all.notifications += inserted,
            Err(error) if concerns_row(error.code()) => {
                let MissedNotification { event, event_type, event_date, .. } = one.clone();
                all.refused.push(RefusedEvent { event, event_type, event_date, reason: error.one_line() });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// How long until a search is due. A handler that was never searched for has missed nothing before its registration.
fn due_in(registered: &[RegisteredType], now: Timestamp, every: Duration) -> Duration {
    let searched = registered.iter().map(|entry| entry.searched_at.unwrap_or(entry.registered_at));
    // A time in the future is no reason to wait longer than for a search that began now.
    searched.min().map_or(every, |earliest| now.until(earliest.min(now).after(every)))
}

/// What to search for: the types from the resume_from of `after` on, each from its registration or shortly before the last
/// search.
fn searched_types(
    registered: Vec<RegisteredType>,
    types: &[String],
    after: Option<&MissedNotification>,
) -> Vec<HandlerType> {
    let registered = registered.into_iter().map(|entry| {
        let after_last = entry.searched_at.map(|at| at.before(SEARCH_OVERLAP));
        let since = after_last.into_iter().chain(entry.since).fold(entry.registered_at, Timestamp::max);
        RegisteredType { since: Some(since), ..entry }
    });
    let mut searched = handler_types(registered, types);
    if let Some(after) = after {
        let resume_from = (&after.event_type, &after.handler);
        searched.retain(|entry| (&entry.event_type, &entry.handler) >= resume_from);
    }
    searched
}

verb! {
    /// See [`Notifications::search_missed`](crate::store::Notifications::search_missed).
    FindMissed { every: Duration, after: Option<MissedNotification>, rows_max: usize, } -> MissedSearch
}

impl FindMissed {
    pub(super) async fn run_in<T: NotificationTx>(self, tx: &mut T) -> Result<MissedSearch> {
        let begun = tx.now().await?;
        let registered = tx.registered().await?;
        let wait = due_in(&registered, begun, self.every);
        if self.after.is_none() && !wait.is_zero() {
            return Ok(MissedSearch::NotDue(wait));
        }
        let types = match needs_types(&registered) {
            true => tx.fanned_out_types().await?,
            false => Vec::new(),
        };
        let searched = searched_types(registered, &types, self.after.as_ref());
        let mut missed: Vec<MissedNotification> = Vec::new();
        for types in whole_types(&searched, TYPES_MAX) {
            let left = self.rows_max - missed.len();
            if left == 0 {
                break;
            }
            // Only the type of the last page continues behind an event.
            let continues = |after: &&MissedNotification| {
                types.first().is_some_and(|first| {
                    first.event_type == after.event_type && first.handler == after.handler
                })
            };
            let after = self.after.as_ref().filter(continues);
            missed.extend(tx.find_missed(types, after, left).await?);
        }
        let more = missed.len() >= self.rows_max;
        Ok(MissedSearch::Page(MissedPage { begun, missed, more }))
    }
}

verb! {
    /// Inserts missed notifications. Returns how many.
    InsertMissed { missed: Vec<MissedNotification>, } -> u64
}

impl InsertMissed {
    pub(super) async fn run_in<T: NotificationTx>(self, tx: &mut T) -> Result<u64> {
        wait_for_lock(tx).await?;
        tx.insert_missed(&self.missed).await
    }
}

verb! {
    /// Records that a search has found all.
    RecordSearch { begun: Timestamp, } -> ()
}

impl RecordSearch {
    pub(super) async fn run_in<T: NotificationTx>(self, tx: &mut T) -> Result<()> {
        tx.record_search(self.begun).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn registered(handler: &str, registered_at: i64, searched_at: Option<i64>) -> RegisteredType {
        RegisteredType {
            handler: handler.to_owned(),
            pattern: "Placed".to_owned(),
            since: None,
            registered_at: seconds(registered_at),
            searched_at: searched_at.map(seconds),
        }
    }

    fn seconds(count: i64) -> Timestamp {
        Timestamp::from_micros(count * 1_000_000)
    }

    #[test]
    fn a_search_is_due_if_the_oldest_one_of_a_handler_is_old_enough() {
        let due = |all: &[RegisteredType]| due_in(all, seconds(1_000), MINUTE).as_secs();
        assert_eq!(due(&[]), 60, "without a handler nothing is missed");
        assert_eq!(due(&[registered("new", 990, None)]), 50);
        assert_eq!(due(&[registered("new", 900, None)]), 0);
        assert_eq!(due(&[registered("one", 0, Some(999)), registered("other", 0, Some(950))]), 10);
        assert_eq!(due(&[registered("one", 0, Some(999)), registered("new", 10, None)]), 0);
        assert_eq!(due(&[registered("one", 0, Some(9_999))]), 60, "the clock was set back");
    }

    #[test]
    fn a_search_continues_with_the_type_and_handler_of_its_last_page() {
        let all = ["a", "b", "c"].map(|name| registered(name, 5, None)).to_vec();
        let after = MissedNotification {
            event: "1".to_owned(),
            event_type: "Placed".to_owned(),
            event_date: seconds(7),
            handler: "b".to_owned(),
        };
        let names = |after: Option<&MissedNotification>| {
            let searched = searched_types(all.clone(), &[], after);
            searched.into_iter().map(|entry| entry.handler).collect::<Vec<_>>()
        };
        assert_eq!(names(None), ["a", "b", "c"]);
        assert_eq!(names(Some(&after)), ["b", "c"]);
    }
}

//! Events that a fan-out leaves out because the database refuses their notifications.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Timestamp;
use crate::store::{RefusedEvent, Skipped};

/// How many refused events are remembered by their ids.
const IDS_MAX: usize = 5_000;

/// How many refused events of one pass are logged.
const LOGGED_MAX: u64 = 5;

/// The refused events of one pass over the events that wait. Up to [`IDS_MAX`] are left out by their ids. With more, all
/// events of their types up to the last refused one are left out, and later ones are still found: its size is bounded.
#[derive(Debug, Default)]
pub(super) struct RefusedEvents {
    skipped: Skipped,
    /// Types and dates of [`Skipped::ids`], in the same order.
    places: Vec<(String, Timestamp)>,
    total: u64,
}

impl RefusedEvents {
    /// What the next fan-out leaves out.
    pub(super) fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Remembers and logs refused events.
    pub(super) fn add(&mut self, refused: Vec<RefusedEvent>) {
        for RefusedEvent { event, event_type, event_date, reason } in refused {
            self.total += 1;
            if self.total <= LOGGED_MAX {
                tracing::error!(
                    event,
                    event_type,
                    reason,
                    "the database refuses the notification of an event; it is tried again later"
                );
            }
            self.skipped.ids.push(event);
            self.places.push((event_type, event_date));
        }
        if self.skipped.ids.len() > IDS_MAX {
            let first = self.skipped.older_than.is_empty();
            self.forget_ids();
            if first {
                tracing::error!(
                    refused = self.total,
                    "the database refuses many notifications; events of the same types that are older wait, too, until \
                     they are tried again"
                );
            }
        }
    }

    /// Leaves refused events out by the date of the last one of their type, and forgets the ids of older ones.
    fn forget_ids(&mut self) {
        for (event_type, date) in &self.places {
            let last = self.skipped.older_than.entry(event_type.clone()).or_insert(*date);
            *last = (*last).max(*date);
        }
        self.retain_from_dates();
        if self.skipped.ids.len() > IDS_MAX / 2 {
            // So many have the same date that those next to them wait as well.
            let types: BTreeMap<String, Timestamp> = self.places.drain(..).collect();
            for (event_type, date) in types {
                self.skipped.older_than.insert(event_type, date.after(Duration::from_micros(1)));
            }
            self.skipped.ids.clear();
        }
    }

    /// Keeps the ids that the dates do not leave out.
    fn retain_from_dates(&mut self) {
        let older_than = &self.skipped.older_than;
        let kept: Vec<bool> =
            self.places.iter().map(|(event_type, date)| older_than.get(event_type) == Some(date)).collect();
        let mut keep = kept.iter();
        self.skipped.ids.retain(|_| keep.next() == Some(&true));
        let mut keep = kept.iter();
        self.places.retain(|_| keep.next() == Some(&true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(event_type: &str, dates: impl IntoIterator<Item = i64>) -> Vec<RefusedEvent> {
        let event = |date: i64| RefusedEvent {
            event: format!("{event_type}-{date}"),
            event_type: event_type.to_owned(),
            event_date: Timestamp::from_micros(date),
            reason: "a CHECK".to_owned(),
        };
        dates.into_iter().map(event).collect()
    }

    #[test]
    fn few_refused_events_are_left_out_by_their_ids() {
        let mut events = RefusedEvents::default();
        assert!(events.is_empty());
        events.add(refused("A", 0..5_000));
        assert_eq!((events.skipped().ids.len(), events.skipped().older_than.len()), (5_000, 0));
    }

    #[test]
    fn many_refused_events_are_left_out_by_the_date_of_the_last_one_of_their_type() {
        let mut events = RefusedEvents::default();
        events.add(refused("A", 0..4_000));
        events.add(refused("B", 0..2_000));
        let Skipped { ids, older_than, .. } = events.skipped();
        assert_eq!(*ids, ["A-3999", "B-1999"]);
        let dates: Vec<(&str, i64)> =
            older_than.iter().map(|(name, date)| (name.as_str(), date.as_micros())).collect();
        assert_eq!(dates, [("A", 3_999), ("B", 1_999)]);
    }

    #[test]
    fn refused_events_of_one_date_are_left_out_with_that_date() {
        let mut events = RefusedEvents::default();
        events.add(refused("A", std::iter::repeat_n(7, 6_000)));
        assert_eq!(events.skipped().ids.len(), 0);
        assert_eq!(events.skipped().older_than["A"].as_micros(), 8);
    }
}

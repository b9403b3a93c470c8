//! Compares delivered with committed events: lost, invented, out of order and duplicate events.

use std::collections::{HashMap, HashSet};
use std::fmt;

use uuid::Uuid;

/// One event, as recorded by the writer or the consumer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sighting {
    /// The id of the event.
    pub id: Uuid,
    /// Its key.
    pub key: String,
    /// Its number within the key: the first committed is 1, each next one more.
    pub version: u64,
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Events committed.
    pub written: usize,
    /// Number of deliveries.
    pub delivered: usize,
    /// Number of distinct events among them.
    pub distinct: usize,
    /// Committed and never delivered.
    pub lost: usize,
    /// Delivered and never committed.
    pub phantom: usize,
    /// Deliveries that were not the next of their key, nor a replay from an earlier point.
    pub out_of_order: usize,
    /// Deliveries of an event that had been delivered before.
    pub duplicates: usize,
}

impl Verdict {
    /// Nothing lost, invented or out of order.
    pub fn is_clean(&self) -> bool {
        self.lost == 0 && self.phantom == 0 && self.out_of_order == 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { written, delivered, distinct, lost, phantom, out_of_order, duplicates } = self;
        write!(
            f,
            "written {written}, delivered {delivered}, distinct {distinct}, lost {lost}, phantom {phantom}, \
             out of order {out_of_order}, duplicates {duplicates}"
        )
    }
}

/// Compares the committed events with the deliveries, in the order of delivery.
///
/// Per key the consumer must see 1, 2, 3 and so on. After a crash it may see an earlier one again, and then
/// everything after that in order: each delivery is at most one ahead of the one before it.
pub fn verify(committed: &[Sighting], delivered: &[Sighting]) -> Verdict {
    let known: HashMap<Uuid, &Sighting> = committed.iter().map(|event| (event.id, event)).collect();
    let mut seen = HashSet::new();
    let mut last: HashMap<&str, u64> = HashMap::new();
    let mut verdict = Verdict { written: committed.len(), delivered: delivered.len(), ..Verdict::default() };
    for event in delivered {
        if known.get(&event.id) != Some(&event) {
            verdict.phantom += 1;
            continue;
        }
        verdict.duplicates += usize::from(!seen.insert(event.id));
        let last = last.entry(&event.key).or_default();
        verdict.out_of_order += usize::from(event.version > *last + 1);
        *last = event.version;
    }
    verdict.distinct = seen.len();
    verdict.lost = known.len() - seen.len();
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(versions: &[u64]) -> Vec<Sighting> {
        let event = |v: &u64| Sighting { id: Uuid::from_u128(u128::from(*v)), key: "k".into(), version: *v };
        versions.iter().map(event).collect()
    }

    fn verdict(delivered: &[u64]) -> Verdict {
        verify(&events(&[1, 2, 3, 4]), &events(delivered))
    }

    #[test]
    fn a_replay_from_an_earlier_point_is_only_a_duplicate() {
        let verdict = verdict(&[1, 2, 3, 2, 3, 4]);
        assert!(verdict.is_clean());
        assert_eq!((verdict.duplicates, verdict.distinct), (2, 4));
    }

    #[test]
    fn missing_invented_and_misordered_events_are_found() {
        assert_eq!(verdict(&[1, 2, 4]).lost, 1);
        assert_eq!(verdict(&[1, 2, 3, 4, 9]).phantom, 1);
        assert_eq!(verdict(&[1, 3, 2, 4]).out_of_order, 2);
        assert_eq!(verdict(&[2, 1, 2, 3, 4]).out_of_order, 1);
    }
}

//! The claimer of a term, with the bugs that a claimer can have.

use std::collections::BTreeSet;

use postrider::Position;
use postrider::ledger::Progress;
use postrider::store::Budget;

use super::bug::Bug;
use crate::memory::{Log, Reader, Reading};

/// Reads the log during one term.
#[derive(Debug)]
pub(crate) struct SimClaimer {
    reader: Reader,
    /// For [`Bug::ClaimPastHoles`].
    last: Position,
    /// For [`Bug::ShowUncommitted`].
    shown: BTreeSet<Position>,
}

impl SimClaimer {
    pub(crate) fn new(progress: &Progress) -> Self {
        Self { reader: Reader::new(progress), last: progress.done.highest(), shown: BTreeSet::new() }
    }

    pub(crate) fn read(&mut self, log: &Log, budget: Budget, bug: Option<Bug>) -> Result<Reading, String> {
        match bug {
            Some(Bug::ClaimPastHoles) => Ok(self.read_past_holes(log, budget)),
            Some(Bug::ShowUncommitted) => {
                let mut reading = self.reader.read(log, budget)?;
                reading.events.retain(|(position, _)| !self.shown.contains(position));
                for (position, event) in log.uncommitted() {
                    if self.shown.insert(position) {
                        reading.events.push((position, event.clone()));
                    }
                }
                reading.events.sort_by_key(|(position, _)| *position);
                Ok(reading)
            }
            Some(Bug::IgnoreBudget) => self.reader.read(log, Budget::new(usize::MAX, usize::MAX)),
            Some(Bug::NoHistoryCheck) => Ok(self.reader.read_unchecked(log, budget)),
            _ => self.reader.read(log, budget),
        }
    }

    fn read_past_holes(&mut self, log: &Log, budget: Budget) -> Reading {
        let end = log.sequence().max(self.last.next());
        let tail = log.range(self.last.next()..=end).take(budget.events_max);
        let events: Vec<_> = tail.map(|(position, event)| (position, event.clone())).collect();
        let mut empty_positions = Vec::new();
        for (position, _) in &events {
            if *position > self.last.next() {
                empty_positions.push((self.last.next(), position.previous()));
            }
            self.last = *position;
        }
        Reading { more: events.len() == budget.events_max, events, empty_positions, damaged: Vec::new() }
    }
}

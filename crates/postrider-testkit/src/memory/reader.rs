//! Reads the log and tracks holes: which events were handed out, which can still appear, and which positions are empty.

use std::sync::Arc;

use postrider::ledger::{Intervals, LastSeen, Progress};
use postrider::store::{Budget, Claimed, Page};
use postrider::{Event, Position, StoredEvent};

use super::Log;

/// Hands out every committed event once, however late it was committed. Each read is in the order of positions.
#[derive(Debug, Clone)]
pub struct Reader {
    /// Handed out, done before, or empty.
    taken: Intervals,
    /// The highest event seen. Holes are only known below it: a position above it that is empty today may be taken
    /// again after a restore, which could not be detected.
    highest: Option<LastSeen>,
}

/// The result of one read.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The events, ascending.
    pub events: Vec<(Position, Arc<Event>)>,
    /// Positions proven empty, both ends included.
    pub empty_positions: Vec<(Position, Position)>,
    /// Rows that cannot be converted to an event, and why.
    pub damaged: Vec<(Position, String)>,
    /// Whether the read ended because of the budget.
    pub more: bool,
}

impl Reader {
    /// Starts at this progress.
    pub fn new(progress: &Progress) -> Self {
        Self { taken: progress.done.clone(), highest: progress.highest }
    }

    /// Reads the next events.
    ///
    /// # Errors
    /// The log is not the one that this reader has read before; the text explains why.
    pub fn read(&mut self, log: &Log, budget: Budget) -> Result<Reading, String> {
        self.check_history(log)?;
        Ok(self.read_unchecked(log, budget))
    }

    /// The same without checking that the log is still the same, which is a bug that the simulator injects.
    pub fn read_unchecked(&mut self, log: &Log, budget: Budget) -> Reading {
        let mut reading = Reading::default();
        let mut bytes = 0;
        let gaps = self.taken.gaps(log.sequence());
        for (position, event) in gaps.into_iter().flat_map(|(start, end)| log.range(start..=end)) {
            bytes += event.size_bytes();
            let rows = reading.events.len() + reading.damaged.len();
            if rows > 0 && (rows >= budget.events_max || bytes > budget.bytes_max) {
                reading.more = true;
                break;
            }
            if log.is_unreadable(position) {
                reading.damaged.push((position, format!("the event at position {position} is not readable")));
                continue;
            }
            reading.events.push((position, event.clone()));
        }
        for (position, event) in &reading.events {
            self.taken.insert(*position);
            if self.highest.is_none_or(|mark| mark.position < *position) {
                self.highest = Some(LastSeen { position: *position, id: event.id });
            }
        }
        reading.damaged.iter().for_each(|(position, _)| self.taken.insert(*position));
        reading.empty_positions = self.take_empty(log);
        reading
    }

    /// The same as a result of the store.
    pub fn claim(&mut self, log: &Log, budget: Budget) -> Claimed {
        match self.read(log, budget) {
            Ok(Reading { events, empty_positions, damaged, more }) => {
                let stored = |(position, event): (Position, Arc<Event>)| StoredEvent { position, event };
                let events = events.into_iter().map(stored).collect();
                let mut page = Page::default();
                (page.events, page.empty_positions, page.damaged) = (events, empty_positions, damaged);
                (page.more_at_once, page.has_unread) = (more, more);
                Claimed::Page(page)
            }
            Err(reason) => Claimed::HistoryChanged(reason),
        }
    }

    fn check_history(&self, log: &Log) -> Result<(), String> {
        let seen = self.taken.highest();
        if log.sequence() < seen {
            return Err(format!("position {seen} was seen, the sequence is at {}", log.sequence()));
        }
        let Some(mark) = self.highest else { return Ok(()) };
        match log.get(mark.position) {
            Some(event) if event.id == mark.id => Ok(()),
            Some(_) => Err(format!("position {} holds another event than before", mark.position)),
            None => Err(format!("position {} was seen and is empty now", mark.position)),
        }
    }

    /// Removes every hole whose transaction rolled back.
    fn take_empty(&mut self, log: &Log) -> Vec<(Position, Position)> {
        let Some(mark) = self.highest else { return Vec::new() };
        let gaps = self.taken.gaps(mark.position).into_iter();
        let empty: Vec<_> = gaps.flat_map(|(start, end)| log.empty_within(start, end)).collect();
        for (start, end) in &empty {
            self.taken.insert_range(*start, *end);
        }
        empty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain_event() -> Event {
        Event::new("thing.happened", "{}")
    }

    const ALL: Budget = Budget::new(100, 1_000_000);

    fn positions(reading: &Reading) -> Vec<i64> {
        reading.events.iter().map(|(position, _)| position.get()).collect()
    }

    #[test]
    fn a_late_commit_is_handed_out_after_later_positions() {
        let (mut log, mut reader) = (Log::default(), Reader::new(&Progress::default()));
        let late = log.begin();
        log.insert(late, plain_event());
        log.write(plain_event());
        let reading = reader.read(&log, ALL).unwrap();
        assert_eq!((positions(&reading), reading.empty_positions.len()), (vec![2], 0));
        log.commit(late);
        assert_eq!(positions(&reader.read(&log, ALL).unwrap()), [1]);
        assert!(reader.read(&log, ALL).unwrap().events.is_empty());
    }

    #[test]
    fn a_rolled_back_position_is_empty_once_a_later_event_was_seen() {
        let (mut log, mut reader) = (Log::default(), Reader::new(&Progress::default()));
        let gone = log.begin();
        log.insert(gone, plain_event());
        log.insert(gone, plain_event());
        log.rollback(gone);
        assert!(reader.read(&log, ALL).unwrap().empty_positions.is_empty());
        log.write(plain_event());
        assert_eq!(reader.read(&log, ALL).unwrap().empty_positions, [(Position::new(1), Position::new(2))]);
        assert!(reader.read(&log, ALL).unwrap().empty_positions.is_empty());
    }

    #[test]
    fn a_read_stops_at_its_budget_and_loses_nothing() {
        let (mut log, mut reader) = (Log::default(), Reader::new(&Progress::default()));
        for _ in 0..3 {
            log.write(plain_event());
        }
        let two = Budget::new(2, 1_000_000);
        let reading = reader.read(&log, two).unwrap();
        assert_eq!((positions(&reading), reading.more), (vec![1, 2], true));
        let reading = reader.read(&log, Budget::new(2, 0)).unwrap();
        assert_eq!((positions(&reading), reading.more), (vec![3], false));
    }

    #[test]
    fn a_restored_log_is_detected_behind_at_and_past_the_mark() {
        let mut log = Log::default();
        log.write(plain_event());
        let backup = log.backup();
        log.write(plain_event());
        let mut reader = Reader::new(&Progress::default());
        reader.read(&log, ALL).unwrap();
        log.restore(&backup);
        assert!(reader.read(&log, ALL).unwrap_err().contains("sequence"));
        let gone = log.begin();
        log.insert(gone, plain_event());
        assert!(reader.read(&log, ALL).unwrap_err().contains("empty"));
        log.commit(gone);
        assert!(reader.read(&log, ALL).unwrap_err().contains("another event"));
    }
}

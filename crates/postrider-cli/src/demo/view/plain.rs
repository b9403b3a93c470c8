//! One line per second, for pipes, logs and screen readers.

use std::fmt::Write;

use super::number::{age, count, rate};
use crate::demo::snapshot::{Snapshot, State};

/// Prints one line per second.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    /// The next second to report.
    next: u64,
}

impl Plain {
    /// The line to print now, if one is due.
    pub(super) fn line(&mut self, snapshot: &Snapshot<'_>) -> Option<String> {
        if snapshot.elapsed.as_secs() < self.next {
            return None;
        }
        self.next = snapshot.elapsed.as_secs() + 1;
        let (committed, rolled_back) = (count(snapshot.committed), count(snapshot.rolled_back));
        let mut line = format!(
            "{:>3} s  shop {:>7} {committed:>7} committed {rolled_back:>5} rolled back",
            snapshot.elapsed.as_secs(),
            rate(snapshot.commits.rate()),
        );
        for lane in &snapshot.lanes {
            let (now, backlog) = (rate(lane.deliveries.rate()), count(lane.backlog));
            let _ = write!(line, "  | {} {now:>7} backlog {backlog:>5}", lane.name);
            if let (State::Down | State::CatchingUp, Some(oldest)) = (lane.state, lane.oldest) {
                let _ = write!(line, " {}, oldest {}", lane.state.word(), age(oldest));
            }
        }
        Some(line)
    }
}

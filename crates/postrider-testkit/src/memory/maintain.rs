//! Deletes delivered events.

use std::collections::BTreeSet;

use postrider::store::{Purge, PurgeBound, PurgePlan, Purged};
use postrider::{Position, Timestamp};

use super::MemoryOutbox;

impl MemoryOutbox {
    /// Deletes a batch of delivered events at the database's time `now`; see `Store::purge`.
    pub fn purge(&mut self, purge: &Purge, now: Timestamp) -> Purged {
        let bound = |(name, rows): (&str, &super::MemorySubscription)| PurgeBound {
            subscription: name.to_owned(),
            floor: if rows.halted.is_some() { Position::ZERO } else { rows.progress.done.floor() },
            highest: rows.progress.highest.map(|mark| mark.position),
        };
        let all: Vec<PurgeBound> = self.subscriptions().map(bound).collect();
        let Some(lowest) = PurgeBound::lowest(&all) else {
            return Purged { reached: purge.after, ..Purged::default() };
        };
        let parked = self.subscriptions().flat_map(|(_, rows)| rows.parked.keys().copied());
        let kept: BTreeSet<Position> = parked.chain(all.iter().filter_map(|of| of.highest)).collect();
        let mut above = self.log.visible().map(|(at, event)| (at, event.time)).peekable();
        let mut rows = Vec::new();
        while let Some(row) = above.next_if(|(at, _)| *at <= lowest.floor) {
            if row.0 > purge.after && rows.len() < purge.events_max {
                rows.push(row);
            }
        }
        let held = lowest.held_back(above.next().map(|(_, time)| time), purge.cutoff(now));
        drop(above);
        let PurgePlan { expired, reached, more } = purge.plan(now, &rows, &kept);
        expired.iter().for_each(|position| self.log.delete(*position));
        Purged { deleted: expired.len() as u64, reached, more, held }
    }
}

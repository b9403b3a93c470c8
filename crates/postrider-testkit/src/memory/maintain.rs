//! Deleting what is delivered.

use std::collections::BTreeSet;

use postrider::store::{Choice, Standing, Trim, Trimmed};
use postrider::{Position, Timestamp};

use super::MemoryDatabase;

impl MemoryDatabase {
    /// Deletes a batch of delivered events at the database's time `now`; see `Store::trim`.
    pub fn trim(&mut self, trim: &Trim, now: Timestamp) -> Trimmed {
        let standing = |(name, rows): (&str, &super::Subscription)| Standing {
            subscription: name.to_owned(),
            floor: if rows.halted.is_some() { Position::ZERO } else { rows.progress.done.floor() },
            highest: rows.progress.highest.map(|mark| mark.position),
        };
        let all: Vec<Standing> = self.subscriptions().map(standing).collect();
        let Some(lowest) = Standing::lowest(&all) else {
            return Trimmed { reached: trim.after, ..Trimmed::default() };
        };
        let parked = self.subscriptions().flat_map(|(_, rows)| rows.parked.keys().copied());
        let kept: BTreeSet<Position> = parked.chain(all.iter().filter_map(|of| of.highest)).collect();
        let mut above = self.log.visible().map(|(at, event)| (at, event.time)).peekable();
        let mut rows = Vec::new();
        while let Some(row) = above.next_if(|(at, _)| *at <= lowest.floor) {
            if row.0 > trim.after && rows.len() < trim.events_max {
                rows.push(row);
            }
        }
        let held = lowest.held_back(above.next().map(|(_, time)| time), trim.cutoff(now));
        drop(above);
        let Choice { doomed, reached, more } = trim.choose(now, &rows, &kept);
        doomed.iter().for_each(|position| self.log.delete(*position));
        Trimmed { deleted: doomed.len() as u64, reached, more, held }
    }
}

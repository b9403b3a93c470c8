//! The simulator: whole histories of writers, relays, faults and destinations, each from one seed.
//!
//! A world holds a memory database, model destinations, and relays that run the real brain.
//! Whatever a brain wants done becomes two events in time: the work arrives, and its answer comes back.
//! Between them, and before and after, anything may happen. When the busy phase is over all faults stop,
//! and the world must become quiet. The checkers ([`Promise`]) watch from outside.
//!
//! One seed is one history, bit for bit: no real clock, no threads, no unordered maps.

mod agenda;
mod bug;
mod check;
mod cursor;
mod facts;
mod faults;
mod operation;
mod perform;
mod random;
mod relay;
mod report;
mod scenario;
mod seen;
mod shell;
mod ship;
mod tally;
mod trace;
mod world;
mod writers;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use bug::Bug;
pub use check::Promise;
pub use tally::Tally;
pub use trace::Trace;

/// What came of a seed.
#[derive(Debug)]
pub struct History {
    /// The seed.
    pub seed: u64,
    /// Promises that were broken, with the first complaint about each.
    pub broken: BTreeMap<Promise, String>,
    /// What the history exercised.
    pub tally: Tally,
    /// One line per thing that happened, if asked for.
    pub trace: String,
}

impl History {
    /// The message for the developer who has to find the bug; `None` if all promises were kept.
    pub fn complaint(&self) -> Option<String> {
        if self.broken.is_empty() {
            return None;
        }
        let lines: Vec<String> = self.broken.iter().map(|(p, text)| format!("  {p:?}: {text}")).collect();
        Some(format!(
            "seed {} broke promises\n{}\nreplay: make sim SEED={}",
            self.seed,
            lines.join("\n"),
            self.seed
        ))
    }
}

/// Plays the history of a seed.
pub fn play(seed: u64, bug: Option<Bug>, trace: Trace) -> History {
    let mut world = world::World::new(seed, bug, trace);
    world.run();
    History { seed, broken: world.checks.broken, tally: world.tally, trace: world.trace.into_text() }
}

//! The simulator: complete histories of writers, relays, faults and destinations, each from one seed.
//!
//! A simulation consists of a database in memory, model destinations, and relays that run the real brain. Every call of
//! a brain becomes two events in simulated time: the call arrives, and its reply arrives. Other events, including
//! faults, occur before, between and after them. When the busy phase ends, all faults stop, and the relays must become
//! idle. The checkers ([`Promise`]) observe the simulation from outside.
//!
//! The same seed always gives the same history: the simulator uses no real clock, no threads and no unordered maps.

mod bug;
mod check;
mod claimer;
mod database;
mod driver;
mod event_queue;
mod faults;
mod observation;
mod operation;
mod publish;
mod relay;
mod report;
mod rng;
mod scenario;
mod simulation;
mod tally;
mod trace;
mod writers;
mod written;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use bug::Bug;
pub use check::Promise;
pub use tally::Tally;
pub use trace::Trace;

/// The result of one seed.
#[derive(Debug)]
pub struct History {
    /// The seed.
    pub seed: u64,
    /// The broken promises, with the first failure of each.
    pub broken: BTreeMap<Promise, String>,
    /// How often each situation occurred.
    pub tally: Tally,
    /// One line per event, if the trace is on.
    pub trace: String,
}

impl History {
    /// The failure message with the command that replays the seed; `None` if all promises were kept.
    pub fn failure(&self) -> Option<String> {
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

/// Runs the simulation of a seed.
pub fn run(seed: u64, bug: Option<Bug>, trace: Trace) -> History {
    let mut sim = simulation::Simulation::new(seed, bug, trace);
    sim.run();
    History { seed, broken: sim.checks.broken, tally: sim.tally, trace: sim.trace.into_text() }
}

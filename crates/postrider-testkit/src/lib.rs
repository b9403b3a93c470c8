//! Fakes, checkers, conformance suites and the simulator, for Postrider and its users.
//!
//! - [`conformance`]: one suite per interface, which every implementation passes
//! - [`audit`]: compares the delivered events with the committed ones
//! - [`ManualClock`]: a clock that a test moves
//! - [`CapturedLog`]: the log lines of a test
//! - [`eventually`]: waits for a condition that gives no signal
//! - [`memory`]: a database in memory with late commits, rollbacks and restores
//! - [`sink`]: a destination that follows a script
//! - [`proxy`]: a network that fails on demand
//! - [`servers`]: private database servers, brokers and endpoints
//! - [`sim`]: the simulator, which runs relays, writers and faults from one seed and checks the promises

mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod log;
pub mod memory;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(unix)]
pub mod servers;
#[cfg(feature = "sim")]
pub mod sim;
pub mod sink;
mod wait;

pub use clock::ManualClock;
pub use log::CapturedLog;
pub use postrider_audit as audit;
pub use wait::{Condition, eventually, eventually_blocking, within};

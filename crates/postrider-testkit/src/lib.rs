//! Fakes, checkers, conformance suites and the simulator for Postrider and its users.
//!
//! - [`conformance`]: one suite per seam; every implementation passes the same one
//! - [`audit`]: what was delivered against what was committed
//! - [`ManualClock`]: time that moves when the test says so
//! - [`CapturedLog`]: the log lines of a test
//! - [`memory`]: a database in memory with late commits, rollbacks and restores
//! - [`sink`]: a destination that does what its script says
//! - [`proxy`]: a network that fails on demand
//! - [`servers`]: private servers of the databases that are not a file
//! - [`sim`]: whole histories of relays, writers and faults from one seed, and the checkers of the promises

mod clock;
mod log;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod memory;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(unix)]
pub mod servers;
#[cfg(feature = "sim")]
pub mod sim;
pub mod sink;

pub use clock::ManualClock;
pub use log::CapturedLog;
pub use postrider_audit as audit;

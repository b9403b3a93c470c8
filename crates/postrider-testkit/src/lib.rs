//! For the tests of applications that use Postrider.
//!
//! ```toml
//! [dev-dependencies]
//! postrider-testkit = { path = "../postrider/crates/postrider-testkit", features = ["sqlite"] }
//! ```
//!
//! | to | use | feature |
//! |---|---|---|
//! | assert that code emitted these events | [`Emitted`], [`Expected`] | |
//! | execute actions without a database | `MemoryDatabase`, `MemoryRepository` | `actions` |
//! | call handlers without a database | [`HandlerTest`] | |
//! | run a relay until it is idle | `TestOutbox`, `TestRelay` | `sqlite` |
//! | let minutes pass in no time | [`ManualClock`] | |
//! | crash a handler at each of its points | `CrashTest`, [`CrashPoints`] | `sqlite` |
//! | wait for a condition that gives no signal | [`eventually`] | |
//!
//! Without a feature it adds no dependency that Postrider does not have; `sqlite` adds rusqlite and tempfile. The page
//! "Testing" of the book has an example of each.
//!
//! # For stores, sinks and Postrider itself
//!
//! The features `internal`, `conformance`, `proxy` and `sim` are for the tests of this project and of your own sinks:
//!
//! - `conformance`: one suite per interface, which every implementation passes
//! - `audit`: compares the delivered events with the committed ones
//! - `CapturedLog`: the log lines of a test
//! - `memory`: a database in memory with late commits, rollbacks and restores
//! - `sink`: a destination that follows a script
//! - `proxy`: a network that fails on demand
//! - `servers`: private database servers, brokers and endpoints
//! - `sim`: the simulator, which runs relays, writers and faults from one seed and checks the promises

mod app;
mod clock;
mod wait;

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "internal")]
mod log;
#[cfg(feature = "internal")]
pub mod memory;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(all(unix, feature = "internal"))]
pub mod servers;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(feature = "internal")]
pub mod sink;

#[cfg(feature = "sqlite")]
pub use app::{Crash, CrashTest, Remaining, TestOutbox, TestRelay};
pub use app::{CrashPoints, Emitted, Expected, Handled, HandlerTest};
#[cfg(feature = "actions")]
pub use app::{MemoryDatabase, MemoryError, MemoryRepository, MemoryTransaction};
pub use clock::ManualClock;
pub use wait::{Condition, eventually, eventually_blocking, within};

#[cfg(feature = "internal")]
pub use log::CapturedLog;
#[cfg(feature = "internal")]
pub use postrider_verify as verify;
#[cfg(feature = "internal")]
pub use wait::dropped_after;

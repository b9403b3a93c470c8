//! Fakes, checkers, conformance suites and the simulator for Postrider and its users.
//!
//! - [`conformance`]: one suite per seam; every implementation passes the same one

pub mod conformance;

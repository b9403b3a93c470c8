//! The suites themselves: the memory store passes the one of stores, and the one of sinks finds every lie.

mod memory;
mod faulty_sinks;

//! Tests of the suites: the memory store passes the suite of stores, and the suite of sinks detects every faulty sink.

mod memory;
mod faulty_sinks;

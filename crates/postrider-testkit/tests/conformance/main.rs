//! Tests of the suites: the memory store passes the suite of stores, and the suite of sinks detects every faulty sink.

mod faulty_sinks;
mod memory;

//! Fakes, checkers and conformance suites, for Postrider's own tests and for its users'.

pub mod conformance;

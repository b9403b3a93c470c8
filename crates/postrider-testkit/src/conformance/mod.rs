//! One suite per interface. Every implementation passes the same suite.

pub mod rows;
pub mod sink;
pub mod store;

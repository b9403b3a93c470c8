//! Tables with a state per row in real MySQL and MariaDB servers: two databases for each case.
#![cfg(all(unix, feature = "mysql"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy sees only the tests themselves as tests, not their helpers"
)]

#[path = "../mysql/case.rs"]
#[allow(dead_code, unused_imports, unused_macros, reason = "the servers are what both need of it")]
mod case;
mod rows;

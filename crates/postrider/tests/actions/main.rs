//! Actions on real databases, on every layout and with every driver.
//!
//! - `wallet`: the models and actions of the cases
//! - `place`: a new database with the tables of the application and those of a layout
//! - `drivers`, `by_hand`: one executor per driver; `mortal`: one whose program dies
//! - `cases`: the cases of `layouts`, `kill_points`, `concurrent` and `retries`, and the drivers that they run with
//! - `rules`: what is refused before any SQL; `commit`, `retries`, `shards`: the parts of the executor
#![cfg(all(unix, feature = "actions", feature = "sqlite", feature = "postgres", feature = "mysql"))]
#![cfg(all(feature = "sqlx-sqlite", feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sea-orm"))]
#![cfg(all(feature = "diesel-postgres", feature = "diesel-mysql"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy sees only the tests themselves as tests, not their helpers"
)]

mod by_hand;
mod cases;
mod commit;
mod concurrent;
mod cost;
mod drivers;
mod kill_points;
mod layouts;
mod mortal;
mod own_repository;
mod place;
mod retries;
mod rules;
mod shards;
mod wallet;

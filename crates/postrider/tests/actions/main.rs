//! Actions on real databases, on every layout and with every driver.
//!
//! - `wallet`: the models and actions of the cases
//! - `place`: a new database with the tables of the application and those of a layout
//! - `drivers`, `by_hand`: one executor per driver; `mortal`: one whose program dies
//! - `cases`: the cases of `layouts`, `kill_points`, `concurrent`, `once` and `retries`, and the drivers that they run with
//! - `hostile`: actions that panic or stage too much, and texts of attackers
//! - `rules`: what is refused before any SQL; `commit`, `once`, `retries`, `shards`, `telemetry`: the parts of the executor
#![cfg(all(unix, feature = "actions", feature = "sqlite", feature = "postgres", feature = "mysql"))]
#![cfg(all(feature = "sqlx-sqlite", feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sea-orm"))]
#![cfg(all(feature = "diesel-postgres", feature = "diesel-mysql"))]
#![cfg(test)]

mod by_hand;
mod cases;
mod commit;
mod concurrent;
mod drivers;
mod duplicate_ids;
mod hostile;
mod in_handler;
mod in_transaction;
mod kill_points;
mod layouts;
mod mortal;
mod once;
mod other_tables;
mod own_repository;
mod place;
mod retries;
mod rules;
mod shards;
mod telemetry;
mod wallet;

//! Relays as real processes on a real SQLite file and on real PostgreSQL, MySQL and MariaDB servers: killed, suspended
//! and resumed.
#![cfg(test)]

mod examples;
mod kill;
mod printed;
#[cfg(unix)]
mod servers;
mod shop;
mod takeover;

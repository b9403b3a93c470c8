//! Relays as real processes on a real SQLite file: killed, stopped and continued.

mod examples;
mod kill;
mod readme;
mod shop;
mod takeover;

//! The relay as a program embeds it, on a real SQLite file.
#![cfg(feature = "sqlite")]

mod failures;
mod shop;
mod way;

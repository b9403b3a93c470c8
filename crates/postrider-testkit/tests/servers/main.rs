//! The private servers do what later tests rely on.
#![cfg(unix)]

mod kafka;
mod mysql;
mod postgres;

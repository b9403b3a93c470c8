//! The private servers behave as other tests assume.
#![cfg(unix)]

mod kafka;
mod mysql;
mod postgres;

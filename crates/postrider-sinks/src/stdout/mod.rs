//! JSON lines on standard output.

mod client;

pub use client::Stdout;

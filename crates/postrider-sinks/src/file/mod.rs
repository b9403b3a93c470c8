//! JSON lines in a file that grows, and is put aside when it is large.

mod client;
mod config;
mod error;
mod log;
mod rotate;

pub use client::File;
pub use config::FileConfig;

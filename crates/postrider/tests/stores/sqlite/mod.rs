//! SQLite.

mod log;
mod row_state;

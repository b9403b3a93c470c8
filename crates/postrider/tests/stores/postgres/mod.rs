//! PostgreSQL.

mod log;
mod row_state;

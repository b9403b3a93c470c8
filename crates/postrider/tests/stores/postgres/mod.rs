//! PostgreSQL.

pub(crate) mod log;
mod row_state;

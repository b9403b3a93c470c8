//! PostgreSQL.

pub(crate) mod log;
pub(crate) mod row_state;

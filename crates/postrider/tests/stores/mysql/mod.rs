//! MySQL and MariaDB.

pub(crate) mod log;
mod row_state;

//! One suite per seam; every implementation passes the same one.

pub mod rows;
pub mod sink;
pub mod store;

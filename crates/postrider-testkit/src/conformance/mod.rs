//! One suite per seam; every implementation passes the same one.

pub mod store;

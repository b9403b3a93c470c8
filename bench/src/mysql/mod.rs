//! The contenders on a MySQL or MariaDB server.

mod cost;
mod fixture;
mod relay;
mod row_by_row;
mod select;

pub(crate) use cost::{Cost, Gauge, row};
pub(crate) use fixture::Fixture;

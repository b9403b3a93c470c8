//! The contenders on a PostgreSQL server.

mod claims;
mod cost;
mod fixture;
mod relay;
mod row_by_row;
mod select;
mod server;
mod skip_locked;

pub(crate) use claims::ClaimCost;
pub(crate) use cost::{Cost, Gauge, report, row};
pub(crate) use fixture::Fixture;

//! The contenders on a SQLite file.

mod fixture;
mod relay;
mod row_by_row;
mod select;

pub(crate) use fixture::Fixture;

//! Tables of anybody's, by a map of their columns.

mod case;
mod conformance;
mod live;
mod refused;
mod tally;

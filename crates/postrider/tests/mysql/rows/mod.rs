//! Tables with a state per row, on both servers.

mod case;
mod conformance;

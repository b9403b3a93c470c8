//! User-defined tables, by a map of their columns.

mod case;
mod conformance;
mod event_counts;
mod live;
mod peers;
mod refused;

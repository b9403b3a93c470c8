//! User-defined tables, by a map of their columns.

mod case;
mod conformance;
mod live;
mod peers;
mod refused;
mod event_counts;

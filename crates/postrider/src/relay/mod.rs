//! The relay: holds a lease and runs claim, route, encode, publish, settle.

pub mod brain;
mod policy;

pub use policy::{OnDead, Order, Policy};

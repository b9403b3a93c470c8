//! A money transfer between two databases.
//!
//! No transaction covers both, so the transfer is a saga: each step is an action on one shard, and its event starts the next
//! step. A step that cannot be done is answered by an event that undoes the first one.
//!
//! - `model`: the rows and their events
//! - `actions`: the steps, each in one transaction on one shard
//! - `saga`: which event starts which step
//! - `bank`: the databases, the executor and the relay

#![allow(missing_docs, reason = "the fields of an example explain themselves")]

pub mod actions;
pub mod bank;
pub mod model;
pub mod saga;

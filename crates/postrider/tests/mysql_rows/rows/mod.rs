//! Tables with a state per row, on both servers.

#[path = "../../rows/anywhere.rs"]
mod anywhere;
mod case;
mod conformance;
mod custom;
mod documents;
mod foreign;
mod relay;
#[path = "../../rows/sink.rs"]
mod sink;
mod tables;
mod write;

//! Tables with a state per row, on both servers.

#[path = "../../rows/anywhere.rs"]
mod anywhere;
#[path = "../../rows/arrivals.rs"]
mod arrivals;
mod case;
mod conformance;
mod custom;
mod documents;
mod foreign;
mod peers;
mod relay;
#[path = "../../rows/sink.rs"]
mod sink;
mod tables;
mod write;

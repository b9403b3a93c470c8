//! The contenders that write to Kafka.

mod alone;
mod relay;
mod topic;

pub(crate) use alone::Alone;
pub(crate) use relay::{Mode, relay, relay_with};
pub(crate) use topic::Topic;

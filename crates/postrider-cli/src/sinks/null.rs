//! `type = "null"`

use std::fmt;
use std::sync::Arc;

use postrider::Result;
use postrider::sink::Sink;
use postrider_sinks::Null;

use super::{SinkType, SinkUser, Target};

pub(super) const TYPE: SinkType = SinkType {
    name: "null",
    summary: "`null` (discards events)",
    keys: &[],
    read: Ok(|_| Ok(Arc::new(Nowhere))),
};

#[derive(Debug, PartialEq)]
struct Nowhere;

impl Target for Nowhere {
    fn open(&self, _: &SinkUser<'_>) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(Null::new()))
    }
}

impl fmt::Display for Nowhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nowhere")
    }
}

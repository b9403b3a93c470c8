//! `type = "stdout"`

use std::fmt;
use std::sync::Arc;

use postrider::Result;
use postrider::sink::Sink;
use postrider_sinks::Stdout;

use super::{SinkType, SinkUser, Target};

pub(super) const TYPE: SinkType = SinkType {
    name: "stdout",
    summary: "lines on standard output",
    keys: &[],
    read: Ok(|_| Ok(Arc::new(StandardOutput))),
};

/// Shared by all subscriptions, so that their lines do not mix.
#[derive(Debug, PartialEq)]
struct StandardOutput;

impl Target for StandardOutput {
    fn open(&self, _: &SinkUser<'_>) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(Stdout::new()?))
    }

    fn writes_lines(&self) -> bool {
        true
    }
}

impl fmt::Display for StandardOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output")
    }
}

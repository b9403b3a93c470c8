//! `--with`: the optional parts of a layout.

use clap::{Args, ValueEnum};
use postrider::store::RowExtras;

#[derive(Debug, Args)]
pub(super) struct WithArg {
    /// Also create optional parts of the layout
    #[arg(long, value_enum)]
    with: Vec<Optional>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Optional {
    /// The index over aggregate type and id of `outbox_events`
    AggregateIndex,
    /// The five views of `postrider`, or the six of `event_outbox` on an existing table (a new table has
    /// them)
    Views,
    /// The notifications of `eventlog`, which its handlers need, and the index for the fan-out
    Handlers,
}

impl WithArg {
    pub(super) fn extras(&self) -> RowExtras {
        RowExtras::default()
            .aggregate_index(self.with.contains(&Optional::AggregateIndex))
            .views(self.with.contains(&Optional::Views))
            .handlers(self.with.contains(&Optional::Handlers))
    }
}

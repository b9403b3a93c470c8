//! A sink that counts its ambiguous outcomes: each may have been written, so each may become a duplicate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::sink::{Capabilities, Message, Outcome, Sink};
use postrider::{BoxFuture, Result};

pub(crate) struct Counted<S> {
    sink: S,
    ambiguous: Arc<AtomicUsize>,
}

impl<S: Sink> Counted<S> {
    /// The sink, and the number of its ambiguous outcomes.
    pub(crate) fn new(sink: S) -> (Self, Arc<AtomicUsize>) {
        let ambiguous = Arc::new(AtomicUsize::new(0));
        (Self { sink, ambiguous: ambiguous.clone() }, ambiguous)
    }
}

impl<S: Sink> Sink for Counted<S> {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async {
            let outcomes = self.sink.publish(batch).await;
            let open = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Ambiguous(_))).count();
            self.ambiguous.fetch_add(open, Ordering::SeqCst);
            outcomes
        })
    }

    fn take_over(&self, lease: Duration) -> BoxFuture<'_, Result<()>> {
        self.sink.take_over(lease)
    }

    fn capabilities(&self) -> Capabilities {
        self.sink.capabilities()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.sink.close()
    }
}

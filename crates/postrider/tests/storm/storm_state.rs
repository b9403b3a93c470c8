//! The state of the storm, which its writers and readers share.

use std::sync::atomic::{AtomicBool, Ordering};

/// The state of the storm.
#[derive(Debug, Default)]
pub(crate) struct StormState {
    writing: AtomicBool,
    quiet: AtomicBool,
    over: AtomicBool,
}

impl StormState {
    /// Whether writers run.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.load(Ordering::SeqCst)
    }

    /// Whether only two writers and the readers are active, and readers poll often.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::SeqCst)
    }

    /// Whether all transactions have ended, so that readers should read to the end.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub(crate) fn set_writing(&self, writing: bool) {
        self.writing.store(writing, Ordering::SeqCst);
    }

    pub(crate) fn set_quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// The longest pause of a reader between two polls.
    pub(crate) fn poll_micros_max(&self) -> u64 {
        if self.is_quiet() { 500 } else { 8_000 }
    }
}

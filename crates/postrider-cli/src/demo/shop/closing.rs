//! The signal that the shop is closed, which also ends pauses.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Signals all threads that the shop is closed.
#[derive(Debug, Default)]
pub(super) struct Closing {
    closed: Mutex<bool>,
    bell: Condvar,
}

impl Closing {
    pub(super) fn close(&self) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }

    /// Pauses, at most until the shop closes. Returns whether it is still open.
    pub(super) fn pause(&self, pause: Option<Duration>) -> bool {
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = match pause {
            None => closed,
            Some(pause) => {
                let waited = self.bell.wait_timeout_while(closed, pause, |closed| !*closed);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        !*closed
    }
}

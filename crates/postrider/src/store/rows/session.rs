//! The one session of a store.

use std::sync::{Mutex as StdMutex, PoisonError};

use tokio::sync::Mutex;

use super::book::Book;
use crate::store::Epoch;

/// What is known of the rows while a lease is held.
pub(crate) struct Session {
    now: StdMutex<Now>,
    /// Held while rows change hands between the relay and the parked: a row must not be given back while it is
    /// handed out.
    pub(crate) hands: Mutex<()>,
}

struct Now {
    subscription: String,
    book: Book,
}

impl Default for Session {
    fn default() -> Self {
        let now = Now { subscription: String::new(), book: Book::new(Epoch::default()) };
        Self { now: StdMutex::new(now), hands: Mutex::default() }
    }
}

impl Session {
    pub(crate) fn with_book<T>(&self, act: impl FnOnce(&mut Book) -> T) -> T {
        act(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner).book)
    }

    pub(crate) fn subscription(&self) -> String {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).subscription.clone()
    }

    /// Another lease, and with it another book.
    pub(crate) fn begin(&self, subscription: String, book: Book) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Now { subscription, book };
    }
}

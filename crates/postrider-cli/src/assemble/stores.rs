//! The open databases of a relay.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider::store::Store;

/// Open databases by the name of their outbox. They must be closed, otherwise the WAL of a SQLite file remains when the
/// program ends.
#[derive(Default)]
pub struct Stores(Mutex<BTreeMap<String, Arc<dyn Store>>>);

impl Stores {
    /// Adds the database of an outbox.
    pub fn insert(&self, outbox: String, store: Arc<dyn Store>) {
        self.lock().insert(outbox, store);
    }

    /// All open databases, by name.
    pub fn all(&self) -> Vec<(String, Arc<dyn Store>)> {
        self.lock().iter().map(|(name, store)| (name.clone(), store.clone())).collect()
    }

    /// Closes all connections, so that no file has a WAL when the program ends.
    pub async fn close(&self) {
        for (_, store) in self.all() {
            store.close().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<dyn Store>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

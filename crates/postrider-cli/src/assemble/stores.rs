//! Opens the databases of the configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider::Result;
use postrider::store::Store;

use super::WhenDown;
use crate::config::Settings;

/// Open databases by the name of their outbox. They must be closed, otherwise the WAL of a SQLite file remains when the
/// program ends.
#[derive(Default)]
pub struct Stores(BTreeMap<String, Arc<dyn Store>>);

impl Stores {
    /// Opens the database of an outbox if it is not open yet.
    ///
    /// # Errors
    /// As [`Database::open`](crate::database::Database::open).
    pub async fn open(&mut self, outbox: &str, settings: &Settings, when_down: WhenDown) -> Result<()> {
        if let Some(of) = settings.outboxes.get(outbox)
            && !self.0.contains_key(outbox)
        {
            let store = when_down.retry(outbox, &of.database, async || of.database.open().await).await?;
            self.0.insert(outbox.to_owned(), store);
        }
        Ok(())
    }

    /// All open databases.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<dyn Store>)> {
        self.0.iter().map(|(name, store)| (name.as_str(), store))
    }

    /// Closes all connections, so that no file has a WAL when the program ends.
    pub async fn close(&self) {
        for store in self.0.values() {
            store.close().await;
        }
    }
}

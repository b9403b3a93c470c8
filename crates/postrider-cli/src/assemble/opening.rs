//! Opens the databases of a relay, each in its own task: one that is down delays no other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use postrider::store::{RowExtras, Store};
use postrider::{Code, Result};
use tokio::sync::watch;

use super::{NamedTasks, WhenDown};
use crate::config::settings::OutboxSettings;
use crate::database::Database;

/// How long a start waits for the first answer of a database, if another one is open.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The delay before an outbox that was refused is tried again, while the others are served.
const REFUSED_WAIT: Duration = Duration::from_secs(5);

/// Databases that are being opened.
pub struct Opening {
    when_down: WhenDown,
    /// The tables are created or updated first.
    migrates: bool,
    tasks: NamedTasks<Arc<dyn Store>>,
    /// The databases of all outboxes, by name.
    databases: HashMap<String, Arc<Database>>,
    /// How many of them are down.
    down: watch::Sender<usize>,
}

impl Opening {
    /// Nothing is opened yet.
    pub fn new(when_down: WhenDown, migrates: bool) -> Self {
        Self {
            when_down,
            migrates,
            tasks: NamedTasks::default(),
            databases: HashMap::new(),
            down: watch::Sender::new(0),
        }
    }

    /// Opens the database of an outbox.
    pub fn open(&mut self, name: &str, outbox: &OutboxSettings) {
        self.databases.insert(name.to_owned(), outbox.database.clone());
        self.open_after(Duration::ZERO, name);
    }

    /// Opens the database of an outbox again that could not be served.
    pub fn open_again(&mut self, name: &str, outbox: &OutboxSettings) {
        self.databases.insert(name.to_owned(), outbox.database.clone());
        self.open_after(REFUSED_WAIT, name);
    }

    fn open_after(&mut self, wait: Duration, name: &str) {
        let Some(database) = self.databases.get(name).cloned() else { return };
        let (down, outbox) = (self.down.clone(), name.to_owned());
        let (when_down, migrates) = (self.when_down, self.migrates);
        self.tasks.start(name, async move {
            tokio::time::sleep(wait).await;
            open(&outbox, &database, when_down, migrates, &down).await
        });
    }

    /// Waits until one database is open and the others are open or known to be down, for at most two seconds.
    ///
    /// # Errors
    /// An error of a database that waiting cannot resolve.
    pub async fn first(&mut self) -> Result<Vec<(String, Arc<dyn Store>)>> {
        let mut opened = Vec::new();
        let mut down = self.down.subscribe();
        let mut patience = std::pin::pin!(tokio::time::sleep(ANSWER_MAX));
        loop {
            let are_down = self.tasks.running() <= *down.borrow_and_update();
            if self.tasks.running() == 0 || !opened.is_empty() && (are_down || patience.is_elapsed()) {
                return Ok(opened);
            }
            tokio::select! {
                biased;
                (name, store) = self.next() => match store {
                    // A bug that one database reveals must not stop the others.
                    Err(error) if error.code() == Code::RelayStopped && self.databases.len() > 1 => {
                        tracing::error!(outbox = name, code = %error.code(), "it is not served yet: {}", error.one_line());
                        self.open_after(REFUSED_WAIT, &name);
                    }
                    store => opened.push((name, store?)),
                },
                _ = down.changed() => {}
                () = &mut patience, if !patience.is_elapsed() => {}
            }
        }
    }

    /// Waits for the next database that is open, or cannot be opened. Never returns if there is none. Dropping the future
    /// loses nothing.
    pub async fn next(&mut self) -> (String, Result<Arc<dyn Store>>) {
        self.tasks.next().await
    }
}

async fn open(
    name: &str,
    database: &Database,
    when_down: WhenDown,
    migrates: bool,
    down: &watch::Sender<usize>,
) -> Result<Arc<dyn Store>> {
    if migrates {
        let migrate = || database.admin().migrate(None, RowExtras::default());
        when_down.retry(name, database, down, migrate).await?;
    }
    when_down.retry(name, database, down, || database.open()).await
}

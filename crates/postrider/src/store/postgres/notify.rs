//! Notifies relays of new events: NOTIFY after the commit, over a separate connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_postgres::Client;

use super::connect::PostgresConfig;
use super::failure::failed;
use crate::Result;

/// The shortest time between two NOTIFYs. Calls in between share the next one.
const PAUSE: Duration = Duration::from_millis(5);

/// The first wait before a lost connection is opened again; doubles with each failure.
const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// The longest wait before the next try.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Wakes the relays that [listen](PostgresConfig::listen). Writers call [`notify`](Self::notify) after the commit.
///
/// A NOTIFY inside the writer's transaction would make all writers commit one after another. This one is sent over a
/// separate connection, at most once every few milliseconds for any number of calls. It works through every pooler.
/// Clones share the connection, which is closed with the last of them.
#[derive(Clone)]
pub struct PostgresNotifier(Arc<NotifyTask>);

struct NotifyTask {
    requested: Arc<Notify>,
    task: AbortHandle,
}

impl Drop for NotifyTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PostgresNotifier {
    /// For the outbox of this configuration. Connects at the first call of [`notify`](Self::notify).
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(config: &PostgresConfig) -> Self {
        let requested = Arc::new(Notify::new());
        let task = tokio::spawn(send_notifications(config.clone(), requested.clone())).abort_handle();
        Self(Arc::new(NotifyTask { requested, task }))
    }

    /// Reports that events were committed. Returns immediately, cannot fail, and may be called from anywhere. After the
    /// last of many calls at least one NOTIFY follows. While the database cannot be reached, calls are combined into
    /// one NOTIFY, which is sent when it is reachable again; polling finds the events in any case.
    pub fn notify(&self) {
        self.0.requested.notify_one();
    }
}

impl fmt::Debug for PostgresNotifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresNotifier").finish_non_exhaustive()
    }
}

async fn send_notifications(config: PostgresConfig, requested: Arc<Notify>) {
    // A notification need not survive a crash, so its commit need not wait for the disk.
    let sql =
        config.schema_name().put_into("BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {schema}; COMMIT");
    let (mut client, mut backoff) = (None, BACKOFF_MIN);
    loop {
        requested.notified().await;
        // A lost connection is noticed only when it is used, so the first failure is retried immediately.
        let mut tries = 0;
        while let Err(error) = send(&config, &mut client, &sql).await {
            tries += 1;
            if tries == 2 {
                let what = error.one_line();
                tracing::warn!("cannot notify relays; they find new events by polling: {what}");
            }
            if tries > 1 {
                tokio::time::sleep(backoff).await;
                backoff = (backoff * 2).min(BACKOFF_MAX);
            }
        }
        backoff = BACKOFF_MIN;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn send(config: &PostgresConfig, slot: &mut Option<Client>, sql: &str) -> Result<()> {
    let client = match slot.take() {
        Some(client) if !client.is_closed() => client,
        _ => config.guarded_client().await?.0,
    };
    client.batch_execute(sql).await.map_err(failed)?;
    *slot = Some(client);
    Ok(())
}

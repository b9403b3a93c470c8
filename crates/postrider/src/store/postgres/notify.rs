//! Telling relays of new events: NOTIFY after the commit, on a connection of its own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_postgres::Client;

use super::connect::PostgresConfig;
use super::failure::failed;
use crate::Result;

/// Shortest time between two NOTIFYs. Calls in between share the next one.
const PAUSE: Duration = Duration::from_millis(5);

/// First wait before a lost connection is made again; doubles with each failure.
const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// Longest wait before the next try.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Wakes the relays that [listen](PostgresConfig::listen). For writers: call [`notify`](Self::notify) after
/// the commit.
///
/// A NOTIFY inside the writer's transaction would make all writers commit one after the other. This one is sent
/// over a connection of its own, at most one every few milliseconds however many call. Works through every
/// pooler. Clones share the connection; it ends with the last of them.
#[derive(Clone)]
pub struct PostgresNotifier(Arc<Bell>);

struct Bell {
    rung: Arc<Notify>,
    task: AbortHandle,
}

impl Drop for Bell {
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
        let rung = Arc::new(Notify::new());
        let task = tokio::spawn(ring(config.clone(), rung.clone())).abort_handle();
        Self(Arc::new(Bell { rung, task }))
    }

    /// Says that events were committed. Returns at once, cannot fail, and may be called from anywhere. After the
    /// last of many calls at least one NOTIFY follows. While the database cannot be reached, wake-ups are dropped
    /// except for one, which is sent when it is back; polling finds the events in any case.
    pub fn notify(&self) {
        self.0.rung.notify_one();
    }
}

impl fmt::Debug for PostgresNotifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresNotifier").finish_non_exhaustive()
    }
}

async fn ring(config: PostgresConfig, rung: Arc<Notify>) {
    // A notification need not survive a crash: it does not wait for the disk.
    let sql =
        config.schema_name().put_into("BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {schema}; COMMIT");
    let (mut client, mut backoff) = (None, BACKOFF_MIN);
    loop {
        rung.notified().await;
        // A connection that was lost meanwhile is noticed only by using it.
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

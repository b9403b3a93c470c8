//! Wake-ups by LISTEN, over a separate connection.
//!
//! The channel has the name of the schema. A `NOTIFY postrider` after a commit, from any language, wakes the relays
//! that listen. A wake-up is only a hint: if one is lost, the next poll finds the events.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::Client;

use super::connect::PostgresConfig;
use super::failure::failed;
use super::session::Sharing;
use crate::store::Wakes;
use crate::{BoxFuture, Result};

/// The first wait before a lost connection is opened again; doubles with each failure.
const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// The longest wait before the next try.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Listens, and reconnects if the connection is lost.
pub(super) struct Listener {
    config: PostgresConfig,
    wake: Arc<Notify>,
    state: State,
    backoff: Duration,
}

enum State {
    Disconnected,
    Listening(Client),
    /// The connection goes through a pooler: no notification would ever arrive.
    Unsupported,
}

impl Listener {
    pub(super) fn new(config: PostgresConfig) -> Self {
        Self { config, wake: Arc::default(), state: State::Disconnected, backoff: BACKOFF_MIN }
    }

    async fn listen(&self) -> Result<State> {
        let (client, sharing) = self.config.open(Some(self.wake.clone())).await?;
        if sharing == Sharing::Pooled {
            tracing::info!(
                "the database is behind a pooler in transaction mode: LISTEN does not work, the relay polls for new events"
            );
            return Ok(State::Unsupported);
        }
        client.batch_execute(&self.config.schema_name().put_into("LISTEN {schema}")).await.map_err(failed)?;
        Ok(State::Listening(client))
    }

    async fn wait(&mut self) {
        loop {
            match &self.state {
                State::Unsupported => std::future::pending().await,
                State::Listening(client) if !client.is_closed() => {
                    self.wake.notified().await;
                    if !client.is_closed() {
                        self.backoff = BACKOFF_MIN;
                        return;
                    }
                }
                State::Listening(_) => {
                    let wait = self.backoff;
                    tracing::info!(?wait, "the LISTEN connection was lost");
                    self.state = State::Disconnected;
                    // Waits even if every new connection is lost immediately, so that this does not spin.
                    tokio::time::sleep(wait).await;
                    self.backoff = (wait * 2).min(BACKOFF_MAX);
                }
                State::Disconnected => match self.listen().await {
                    Ok(state) => {
                        self.state = state;
                        // Notifications before this moment were lost.
                        return;
                    }
                    Err(error) => {
                        let wait = self.backoff;
                        let what = error.one_line();
                        tracing::info!(?wait, "LISTEN failed; the relay polls for new events: {what}");
                        tokio::time::sleep(wait).await;
                        self.backoff = (wait * 2).min(BACKOFF_MAX);
                    }
                },
            }
        }
    }
}

impl Wakes for Listener {
    fn next(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.wait())
    }
}

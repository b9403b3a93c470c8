//! Hearing of new events: LISTEN on a connection of its own.
//!
//! The channel has the name of the schema. A process that sends `NOTIFY postrider` after a commit, from any language,
//! wakes the relays that listen. A wake-up is only a hint: what is not heard is found by the next poll.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::Client;

use super::connect::PostgresConfig;
use super::failure::failed;
use super::session::Sharing;
use crate::store::Wakes;
use crate::{BoxFuture, Result};

/// First wait before a lost connection is made again; doubles with each failure.
const AGAIN_MIN: Duration = Duration::from_millis(100);

/// Longest wait before the next try.
const AGAIN_MAX: Duration = Duration::from_secs(30);

/// Listens, and connects again when the connection is lost.
pub(super) struct Listener {
    config: PostgresConfig,
    ears: Arc<Notify>,
    state: State,
    again: Duration,
}

enum State {
    Apart,
    Listening(Client),
    /// A pooler stands between: nothing would ever be heard.
    Deaf,
}

impl Listener {
    pub(super) fn new(config: PostgresConfig) -> Self {
        Self { config, ears: Arc::default(), state: State::Apart, again: AGAIN_MIN }
    }

    async fn listen(&self) -> Result<State> {
        let (client, sharing) = self.config.open(Some(self.ears.clone())).await?;
        if sharing == Sharing::Pooled {
            tracing::info!(
                "the database is behind a pooler in transaction mode: LISTEN does not work, the relay polls for new events"
            );
            return Ok(State::Deaf);
        }
        client.batch_execute(&self.config.schema_name().put_into("LISTEN {schema}")).await.map_err(failed)?;
        Ok(State::Listening(client))
    }

    async fn heard(&mut self) {
        loop {
            match &self.state {
                State::Deaf => std::future::pending().await,
                State::Listening(client) if !client.is_closed() => {
                    self.ears.notified().await;
                    if !client.is_closed() {
                        self.again = AGAIN_MIN;
                        return;
                    }
                }
                State::Listening(_) => {
                    let wait = self.again;
                    tracing::info!(?wait, "the LISTEN connection was lost");
                    self.state = State::Apart;
                    // Also when each new one ends at once: no process is to spin.
                    tokio::time::sleep(wait).await;
                    self.again = (wait * 2).min(AGAIN_MAX);
                }
                State::Apart => match self.listen().await {
                    Ok(state) => {
                        self.state = state;
                        // Whatever was said before could not be heard.
                        return;
                    }
                    Err(error) => {
                        let wait = self.again;
                        let what = error.one_line();
                        tracing::info!(?wait, "LISTEN failed; the relay polls for new events: {what}");
                        tokio::time::sleep(wait).await;
                        self.again = (wait * 2).min(AGAIN_MAX);
                    }
                },
            }
        }
    }
}

impl Wakes for Listener {
    fn next(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.heard())
    }
}

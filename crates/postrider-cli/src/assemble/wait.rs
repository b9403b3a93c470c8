//! Waits for a database that is down.

use std::time::Duration;

use postrider::Result;
use tokio::sync::watch;

use crate::database::Database;

/// The first wait; doubles each time.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What to do if a database is down at startup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenDown {
    /// Wait until it is up, and log this once.
    Wait,
    /// Give up.
    Fail,
}

impl WhenDown {
    /// Retries until the database is reachable. An error that waiting cannot resolve is returned immediately. Meanwhile
    /// the database counts as `down`.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn retry<T, F: Future<Output = Result<T>> + Send>(
        self,
        outbox: &str,
        database: &Database,
        down: &watch::Sender<usize>,
        question: impl Fn() -> F,
    ) -> Result<T> {
        let mut wait = None;
        loop {
            match question().await {
                Ok(answer) => {
                    if wait.is_some() {
                        down.send_modify(|down| *down = down.saturating_sub(1));
                        tracing::info!(outbox, "the database is reachable again");
                    }
                    return Ok(answer);
                }
                Err(error) if self == Self::Fail || !database.may_come_up(&error) => {
                    if wait.is_some() {
                        down.send_modify(|down| *down = down.saturating_sub(1));
                    }
                    return Err(error);
                }
                Err(error) if wait.is_none() => {
                    down.send_modify(|down| *down += 1);
                    let (code, error) = (error.code().to_string(), error.one_line());
                    tracing::warn!(
                        outbox,
                        code,
                        error,
                        "the database is not reachable; retrying (use --fail-fast to exit instead)"
                    );
                }
                Err(_) => {}
            }
            let now = wait.map_or(WAIT_MIN, |last: Duration| (last * 2).min(WAIT_MAX));
            tokio::time::sleep(now).await;
            wait = Some(now);
        }
    }
}

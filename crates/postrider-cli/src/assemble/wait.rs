//! Waits for a database that is down.

use std::time::Duration;

use postrider::Result;

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
    /// Retries until the database is reachable. An error that waiting cannot resolve is returned immediately.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn retry<T>(
        self,
        outbox: &str,
        database: &Database,
        question: impl AsyncFn() -> Result<T>,
    ) -> Result<T> {
        let mut wait = None;
        loop {
            match question().await {
                Ok(answer) => {
                    if wait.is_some() {
                        tracing::info!(outbox, "the database is reachable again");
                    }
                    return Ok(answer);
                }
                Err(error) if self == Self::Fail || !database.may_come_up(&error) => return Err(error),
                Err(error) if wait.is_none() => {
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

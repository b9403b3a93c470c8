//! The checks of the doctor: they open connections, so their result is kept for a while, and they run once at a time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::outboxes::Finding;

/// The checks run again after this time at the earliest.
const KEPT: Duration = Duration::from_secs(10);

pub(crate) type Run = Arc<dyn Fn() -> BoxFuture<'static, Vec<Finding>> + Send + Sync>;

/// The checks, and their last result.
#[derive(Default)]
pub(crate) struct Checks {
    run: Option<Run>,
    last: Mutex<Option<(Instant, Vec<Finding>)>>,
}

impl Checks {
    pub(crate) fn new(run: Option<Run>) -> Self {
        Self { run, last: Mutex::default() }
    }

    /// The findings; `None` if there are no checks.
    pub(crate) async fn run(&self) -> Option<Vec<Finding>> {
        let run = self.run.as_ref()?;
        let mut last = self.last.lock().await;
        if let Some((at, findings)) = last.as_ref()
            && at.elapsed() < KEPT
        {
            return Some(findings.clone());
        }
        let findings = run().await;
        *last = Some((Instant::now(), findings.clone()));
        Some(findings)
    }
}

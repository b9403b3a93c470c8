//! The peak memory of work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::machine::rss_bytes;

/// Samples the memory of the process every few milliseconds.
pub(crate) struct Memory {
    idle_bytes: u64,
    most_bytes: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Memory {
    pub(crate) fn watch() -> Self {
        let (most_bytes, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let task = tokio::spawn({
            let (most_bytes, over) = (most_bytes.clone(), over.clone());
            async move {
                while !over.load(Ordering::Relaxed) {
                    most_bytes.fetch_max(rss_bytes(), Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        });
        Self { idle_bytes: rss_bytes(), most_bytes, over, task }
    }

    /// The maximum above the memory of the idle process.
    pub(crate) async fn most(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        _ = self.task.await;
        self.most_bytes.load(Ordering::Relaxed).saturating_sub(self.idle_bytes)
    }
}

//! The tasks of a relay. More can be started while it runs, until it stops.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinSet};

/// The tasks of a relay, and the signal that stops them.
pub(super) struct Tasks {
    running: Mutex<Running>,
    /// A task was started: wakes the one that waits although there was none.
    started: Notify,
    stop: watch::Sender<bool>,
}

#[derive(Default)]
struct Running {
    tasks: JoinSet<()>,
    is_stopping: bool,
}

impl Tasks {
    pub(super) fn new() -> Self {
        Self { running: Mutex::default(), started: Notify::new(), stop: watch::channel(false).0 }
    }

    /// Starts a task. It gets the signal that stops it, and keeps it until it ends. Returns false if the relay stops
    /// already; then nothing was started.
    pub(super) fn start<F>(&self, task: impl FnOnce(watch::Receiver<bool>) -> F) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut running = self.lock();
        // Under the lock, so that a task that starts now receives the signal.
        if !running.is_stopping {
            running.tasks.spawn(task(self.stop.subscribe()));
            self.started.notify_one();
        }
        !running.is_stopping
    }

    /// Asks all tasks to end cleanly.
    pub(super) fn stop(&self) {
        let mut running = self.lock();
        running.is_stopping = true;
        self.stop.send_replace(true);
    }

    /// Ends all tasks immediately, like a crash: they do not receive the signal.
    pub(super) fn abort(&self) {
        let mut running = self.lock();
        running.is_stopping = true;
        let tasks = std::mem::take(&mut running.tasks);
        // A task that is dropped may hold the last handle.
        drop(running);
        drop(tasks);
    }

    /// Waits until no task runs.
    pub(super) async fn all_ended(&self) {
        self.stop.closed().await;
    }

    /// Waits until a task has ended, as long as there is one. One caller at a time.
    pub(super) async fn next_ended(&self) -> Option<Result<(), JoinError>> {
        poll_fn(|cx| self.lock().tasks.poll_join_next(cx)).await
    }

    /// Waits until a task has panicked. One caller at a time.
    pub(super) async fn panicked(&self) -> JoinError {
        loop {
            match self.next_ended().await {
                Some(Err(error)) => return error,
                Some(Ok(())) => {}
                None => self.started.notified().await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("running", &self.lock().tasks.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_panic_of_a_task_that_was_started_later_is_found() {
        let tasks = Arc::new(Tasks::new());
        let waiting = tokio::spawn({
            let tasks = tasks.clone();
            async move { tasks.panicked().await }
        });
        tokio::task::yield_now().await;
        assert!(tasks.start(|_| async {}));
        assert!(tasks.start(|_| async { panic!("a bug") }));
        assert!(waiting.await.unwrap().is_panic());
    }

    #[tokio::test]
    async fn no_task_starts_after_the_signal_to_stop_and_every_earlier_one_receives_it() {
        let tasks = Tasks::new();
        let wait = |mut stopped: watch::Receiver<bool>| async move {
            _ = stopped.changed().await;
        };
        assert!(tasks.start(wait));
        tasks.stop();
        assert!(!tasks.start(wait));
        tasks.all_ended().await;
        assert!(tasks.next_ended().await.is_some_and(|ended| ended.is_ok()));
        assert!(tasks.next_ended().await.is_none());
    }
}

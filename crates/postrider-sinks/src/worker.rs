//! The thread that does a sink's blocking writes, one batch at a time.
//!
//! A thread of its own and not the runtime's pool, because a pipe without a reader blocks forever and
//! would keep the runtime from shutting down.

use std::io;

use postrider::sink::{Failure, Message, Outcome};
use tokio::sync::{mpsc, oneshot};

use crate::json_lines::JsonLines;

/// Batches that may wait for the thread. The relay bounds what is in flight; this bounds what it gave up on.
const WAITING_BATCHES_MAX: usize = 16;

/// Where lines are written.
pub(crate) trait Target: Send + 'static {
    /// Writes all lines, as durably as the target can, and says what became of each message.
    fn write(&mut self, lines: JsonLines) -> Vec<Outcome>;
}

/// The handle to the thread. The thread ends when the handle is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    jobs: mpsc::Sender<Job>,
}

#[derive(Debug)]
struct Job {
    lines: JsonLines,
    reply: oneshot::Sender<Vec<Outcome>>,
}

impl Worker {
    /// Starts the thread.
    pub(crate) fn start(name: &str, mut target: impl Target) -> io::Result<Self> {
        let (jobs, mut waiting) = mpsc::channel::<Job>(WAITING_BATCHES_MAX);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while let Some(Job { lines, reply }) = waiting.blocking_recv() {
                // No process waits for it any more, so it would only be a duplicate.
                if !reply.is_closed() {
                    // The caller may have left during the write; then no process needs the answer.
                    let _ = reply.send(target.write(lines));
                }
            }
        })?;
        Ok(Self { jobs })
    }

    /// Writes a batch. When the future is dropped, the batch is written as a whole or not at all.
    pub(crate) async fn publish(&self, batch: &[Message]) -> Vec<Outcome> {
        let lines = JsonLines::of(batch);
        if lines.bytes().is_empty() {
            return lines.acknowledged();
        }
        let (reply, outcomes) = oneshot::channel();
        match self.jobs.send(Job { lines, reply }).await {
            Err(mpsc::error::SendError(job)) => job.lines.down_after(0, thread_gone()),
            Ok(()) => outcomes.await.unwrap_or_else(|_| JsonLines::of(batch).ambiguous(thread_gone())),
        }
    }
}

fn thread_gone() -> Failure {
    Failure::new("the sink's writer thread has stopped; open the sink again, and please report this as a bug")
}

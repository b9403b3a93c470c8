//! The thread that performs a sink's blocking writes, one batch at a time.
//!
//! A dedicated thread instead of the runtime's pool: a write to a pipe without a reader can block forever and would
//! prevent the runtime from shutting down.

use std::io;

use postrider::sink::{Failure, Message, Outcome};
use tokio::sync::{mpsc, oneshot};

use crate::json_lines::JsonLines;

/// Maximum number of batches that wait for the thread. The relay limits the batches in flight; this limits those that
/// it no longer waits for.
const WAITING_BATCHES_MAX: usize = 16;

/// Where lines are written.
pub(crate) trait Target: Send + 'static {
    /// Writes all lines, as durably as the target can. Returns one outcome per message.
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
                // If the caller no longer waits, the relay sends the batch again: writing it here would duplicate it.
                if !reply.is_closed() {
                    // The caller may have stopped waiting during the write.
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

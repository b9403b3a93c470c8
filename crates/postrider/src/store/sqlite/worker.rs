//! A thread that owns a connection: rusqlite blocks, and the relay must not.

use std::task::{Context, Poll, Waker};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot, watch};

use super::failure::{Attempt, SqliteFailure};
use super::file::{OpenFile, Source};
use super::session_lock;
use crate::{Code, Error, Result};

type Job = Box<dyn FnOnce(&mut OpenFile) + Send>;

/// What the worker does next.
enum Command {
    Run(Job),
    Close,
}

/// Jobs that may wait for the connection; a further caller waits until there is room. A single relay has only a few
/// calls open and does not reach this.
const JOBS_MAX: usize = 64;

/// Runs closures on one connection, one after another. When the last clone is dropped or any clone is closed, the
/// connection is closed and the thread ends.
#[derive(Debug, Clone)]
pub(super) struct Worker {
    commands: mpsc::Sender<Command>,
    /// Nothing is ever sent here; the sender is dropped after the connection is closed.
    ended: watch::Receiver<()>,
}

impl Worker {
    /// Opens a connection, and hands it to a new thread.
    ///
    /// # Errors
    /// Those of opening it, and [`Code::StoreFailed`] if the system cannot start a thread.
    pub(super) fn start(name: &str, source: Source) -> Result<Self> {
        let mut file = source.open()?;
        let (commands, mut queue) = mpsc::channel(JOBS_MAX);
        let (ending, ended) = watch::channel(());
        let work = move || {
            while let Some(Command::Run(job)) = queue.blocking_recv() {
                job(&mut file);
            }
            drop(file);
            session_lock::release();
            drop(ending);
        };
        match std::thread::Builder::new().name(name.to_owned()).spawn(work) {
            Ok(_detached) => Ok(Self { commands, ended }),
            Err(error) => {
                Err(Error::new(Code::StoreFailed, "cannot start a thread for the SQLite file")
                    .with_source(error))
            }
        }
    }

    /// Runs an operation in a transaction that sees one snapshot and writes nothing.
    pub(super) async fn read<T, F>(&self, operation: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Attempt<T> + Send + 'static,
    {
        self.run(TransactionBehavior::Deferred, operation).await
    }

    /// Runs an operation in a transaction that is the file's only writer: all of it is committed, or nothing.
    pub(super) async fn write<T, F>(&self, operation: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Attempt<T> + Send + 'static,
    {
        self.run(TransactionBehavior::Immediate, operation).await
    }

    /// Waits for the queued jobs, then closes the connection and ends the thread, for all clones.
    pub(super) async fn close(&self) {
        // If this fails, the thread has ended or is about to.
        let _ = self.commands.send(Command::Close).await;
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }

    /// If the future is dropped after the job is queued, the job still runs, and its result is discarded.
    async fn run<T, F>(&self, behavior: TransactionBehavior, operation: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Attempt<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = move |file: &mut OpenFile| {
            // Otherwise it would read from a file that no other process sees, and write into it.
            let checked = file.check().map_err(SqliteFailure::from);
            let done = checked.and_then(|()| in_transaction(&mut file.connection, behavior, operation));
            // Fails if the caller has stopped waiting, which is not an error of the job.
            let _ = reply.send(done);
        };
        let gone = || Error::new(Code::StoreFailed, "the thread of the SQLite file has stopped");
        self.commands.send(Command::Run(Box::new(job))).await.map_err(|_| gone())?;
        Ok(answer.await.map_err(|_| gone())??)
    }
}

/// Runs an operation in a transaction: committed if it succeeds, else rolled back.
pub(super) fn in_transaction<T>(
    connection: &mut Connection,
    behavior: TransactionBehavior,
    operation: impl FnOnce(&mut Connection) -> Attempt<T>,
) -> Attempt<T> {
    connection.execute_batch(match behavior {
        TransactionBehavior::Immediate => "BEGIN IMMEDIATE",
        _ => "BEGIN DEFERRED",
    })?;
    let answer = operation(connection).and_then(|answer| {
        connection.execute_batch("COMMIT").map_err(SqliteFailure::of_commit)?;
        Ok(answer)
    });
    // A failed COMMIT may leave the transaction open, too.
    if answer.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    answer
}

/// Runs a future that uses only this connection. Its calls block instead of waiting, so one poll completes it.
pub(super) fn poll_once<T>(answer: impl Future<Output = Result<T>>) -> Attempt<T> {
    match std::pin::pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Ok(answer?),
        Poll::Pending => Err(Error::new(Code::StoreFailed, "a call on SQLite has not completed").into()),
    }
}

//! A thread that owns a connection: rusqlite blocks, the relay must not.

use std::task::{Context, Poll, Waker};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot, watch};

use super::failure::{Attempt, Failure};
use crate::{Code, Error, Result};

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// What the worker does next.
enum Command {
    Run(Job),
    Close,
}

/// Jobs that may wait for the connection. A caller beyond them waits before it queues its own; each relay
/// has only a few calls open, so this is never reached by one alone.
const JOBS_MAX: usize = 64;

/// Statements kept prepared, more than all verbs together have.
const STATEMENTS_MAX: usize = 64;

/// Runs closures on one connection, one after the other. The thread ends, and the connection closes, when
/// the last clone is dropped or one is closed.
#[derive(Debug, Clone)]
pub(super) struct Worker {
    commands: mpsc::Sender<Command>,
    /// Nothing is ever sent here; the other end goes away with the connection.
    ended: watch::Receiver<()>,
}

impl Worker {
    /// Hands the connection to a new thread.
    ///
    /// # Errors
    /// [`Code::StoreFailed`] if the machine has no thread to give.
    pub(super) fn start(name: &str, mut connection: Connection) -> Result<Self> {
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        let (commands, mut queue) = mpsc::channel(JOBS_MAX);
        let (ending, ended) = watch::channel(());
        let work = move || {
            while let Some(Command::Run(job)) = queue.blocking_recv() {
                job(&mut connection);
            }
            drop(connection);
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

    /// Runs a verb in a transaction that sees one snapshot and writes nothing.
    pub(super) async fn read<T, F>(&self, verb: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Attempt<T> + Send + 'static,
    {
        self.run(TransactionBehavior::Deferred, verb).await
    }

    /// Runs a verb as the database's one writer: all of it is committed, or none.
    pub(super) async fn write<T, F>(&self, verb: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Attempt<T> + Send + 'static,
    {
        self.run(TransactionBehavior::Immediate, verb).await
    }

    /// Waits for the jobs that are queued, closes the connection and ends the thread, for all clones.
    pub(super) async fn close(&self) {
        // If it takes no commands any more, it has ended or is about to.
        let _ = self.commands.send(Command::Close).await;
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }

    /// Dropping the future once the job is queued does not stop the job: it happens, unheard.
    async fn run<T, F>(&self, behavior: TransactionBehavior, verb: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Attempt<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = move |connection: &mut Connection| {
            // The caller has stopped waiting: not an error of the job.
            let _ = reply.send(in_transaction(connection, behavior, verb));
        };
        let gone = || Error::new(Code::StoreFailed, "the thread of the SQLite file has stopped");
        self.commands.send(Command::Run(Box::new(job))).await.map_err(|_| gone())?;
        Ok(answer.await.map_err(|_| gone())??)
    }
}

/// Runs a verb in a transaction of its own: committed if it succeeds, rolled back if it does not.
pub(super) fn in_transaction<T>(
    connection: &mut Connection,
    behavior: TransactionBehavior,
    verb: impl FnOnce(&mut Connection) -> Attempt<T>,
) -> Attempt<T> {
    connection.execute_batch(match behavior {
        TransactionBehavior::Immediate => "BEGIN IMMEDIATE",
        _ => "BEGIN DEFERRED",
    })?;
    let answer = verb(connection).and_then(|answer| {
        connection.execute_batch("COMMIT").map_err(Failure::of_commit)?;
        Ok(answer)
    });
    // Also a COMMIT may fail and leave its transaction open.
    if answer.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    answer
}

/// The answer of a verb that asks nothing except this connection: none of its steps waits, so it is done when it was polled
/// once.
pub(super) fn finished<T>(answer: impl Future<Output = Result<T>>) -> Attempt<T> {
    match std::pin::pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Ok(answer?),
        Poll::Pending => Err(Error::new(Code::StoreFailed, "a step on SQLite waits").into()),
    }
}

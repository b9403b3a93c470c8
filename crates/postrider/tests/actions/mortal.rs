//! A database whose program dies after a given number of waits.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use postrider::action::{CommitError, Database, Entity, Repository};
use postrider::inbox::{Inbox, Received};
use postrider::write::ActionRecord;
use postrider::{Error, Event, Outbox, Result, Written};
use tokio::sync::Semaphore;
use uuid::Uuid;

/// How often the program may still wait for the database.
pub(crate) struct Life {
    waits: AtomicUsize,
    died: Semaphore,
}

impl Life {
    pub(crate) fn new(waits: usize) -> Arc<Self> {
        Arc::new(Self { waits: AtomicUsize::new(waits), died: Semaphore::new(0) })
    }

    /// Returns when it is over.
    pub(crate) async fn ends(&self) {
        self.died.acquire().await.unwrap().forget();
    }

    /// Runs a future. When life ends, the future is dropped where it is, and this never returns.
    async fn live<T>(&self, future: impl Future<Output = T>) -> T {
        {
            let mut future = pin!(future);
            let output = std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending if self.waits.load(Ordering::Relaxed) == 0 => Poll::Ready(None),
                Poll::Pending => {
                    self.waits.fetch_sub(1, Ordering::Relaxed);
                    Poll::Pending
                }
            });
            if let Some(output) = output.await {
                return output;
            }
        }
        self.died.add_permits(1);
        std::future::pending().await
    }
}

/// A database, and a repository of it.
#[derive(Clone)]
pub(crate) struct Mortal<T>(pub(crate) T, pub(crate) Arc<Life>);

pub(crate) struct MortalTransaction<X>(X, Arc<Life>);

impl<D: Database> Database for Mortal<D> {
    type Transaction = MortalTransaction<D::Transaction>;
    type Error = D::Error;

    async fn begin(&self) -> Result<Self::Transaction> {
        Ok(MortalTransaction(self.1.live(self.0.begin()).await?, self.1.clone()))
    }

    async fn commit(tx: Self::Transaction) -> Result<(), CommitError> {
        tx.1.live(D::commit(tx.0)).await
    }

    async fn rollback(tx: Self::Transaction) {
        tx.1.live(D::rollback(tx.0)).await;
    }

    async fn write_events(
        tx: &mut Self::Transaction,
        outbox: &Outbox,
        events: Vec<Event>,
    ) -> Result<Vec<Written>> {
        tx.1.live(D::write_events(&mut tx.0, outbox, events)).await
    }

    async fn record_action(tx: &mut Self::Transaction, outbox: &Outbox, record: ActionRecord) -> Result<()> {
        tx.1.live(D::record_action(&mut tx.0, outbox, record)).await
    }

    async fn receive(tx: &mut Self::Transaction, inbox: &Inbox, group: &str, id: Uuid) -> Result<Received> {
        tx.1.live(D::receive(&mut tx.0, inbox, group, id)).await
    }

    fn failed(error: D::Error) -> Error {
        D::failed(error)
    }
}

impl<M: Entity, D: Database, R: Repository<M, D>> Repository<M, Mortal<D>> for Mortal<R> {
    async fn insert(&self, tx: &mut MortalTransaction<D::Transaction>, rows: &[M]) -> Result<u64, D::Error> {
        tx.1.live(self.0.insert(&mut tx.0, rows)).await
    }

    async fn update(&self, tx: &mut MortalTransaction<D::Transaction>, rows: &[M]) -> Result<u64, D::Error> {
        tx.1.live(self.0.update(&mut tx.0, rows)).await
    }
}

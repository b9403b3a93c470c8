//! How staged rows are written.

use std::marker::PhantomData;

use super::plan::{Change, ChangeKind};
use super::{Database, Entity};
use crate::{BoxFuture, Code, Error};

/// Writes the rows of one entity type in a transaction of the executor. Reading is up to the application: a repository is
/// its own type, and usually has methods such as `find` that an action calls.
///
/// [`SqlxRepository`](super::SqlxRepository) is the implementation for a plain table.
pub trait Repository<M: Entity, D: Database>: Send + Sync + 'static {
    /// Inserts all rows, and returns how many were inserted. Use one statement: they were staged together.
    ///
    /// # Errors
    /// What the driver says; the executor rolls back.
    fn insert(
        &self,
        tx: &mut D::Transaction,
        rows: &[M],
    ) -> impl Future<Output = Result<u64, D::Error>> + Send;

    /// Updates all rows `WHERE id = ? AND version = ?`, sets the version to the next one, and returns how many rows were
    /// changed. A row whose version is another one must not be changed: the executor then rolls back and runs the action
    /// again.
    ///
    /// # Errors
    /// What the driver says; the executor rolls back.
    fn update(
        &self,
        tx: &mut D::Transaction,
        rows: &[M],
    ) -> impl Future<Output = Result<u64, D::Error>> + Send;
}

/// A repository of any entity type.
pub(super) trait ErasedRepository<D: Database>: Send + Sync {
    /// Writes a change, and returns the number of rows.
    fn write<'a>(
        &'a self,
        tx: &'a mut D::Transaction,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<u64, Error>>;
}

/// A repository of entities `M`.
pub(super) struct RepositoryOf<M, R> {
    repository: R,
    entity: PhantomData<fn(M)>,
}

impl<M, R> RepositoryOf<M, R> {
    pub(super) fn new(repository: R) -> Self {
        Self { repository, entity: PhantomData }
    }
}

impl<M: Entity, D: Database, R: Repository<M, D>> ErasedRepository<D> for RepositoryOf<M, R> {
    fn write<'a>(
        &'a self,
        tx: &'a mut D::Transaction,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            let rows = change.rows::<M>().ok_or_else(|| {
                Error::new(Code::ActionUnregistered, format!("the repository is not for {}", M::NAME))
            })?;
            let (doing, written) = match change.kind() {
                ChangeKind::Add => ("inserted", self.repository.insert(tx, rows).await),
                ChangeKind::Update => ("updated", self.repository.update(tx, rows).await),
            };
            written
                .map_err(|error| D::failed(error).with_message(format!("{} could not be {doing}", M::NAME)))
        })
    }
}

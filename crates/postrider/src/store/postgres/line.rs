//! A connection that is made again when it is lost, and the transactions on it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex as StdMutex, PoisonError};

use tokio::sync::{Mutex, MutexGuard};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, IsolationLevel, Row, Transaction};

use super::connect::{PostgresConfig, Session, Statements};
use super::failure::{commit_failed, failed};
use super::history::Incarnation;
use crate::store::Epoch;
use crate::{Code, Error, Position, Result};

/// Parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// One connection for many callers, one after the other.
///
/// Nothing that was learnt over a connection survives it: the server behind the next one may be another, with
/// another history and the same epochs. Leases taken over a lost connection are therefore refused.
pub(super) struct Line {
    config: PostgresConfig,
    slot: Mutex<Slot>,
    /// The server behind the latest connection, for those who cannot wait for their turn.
    server: StdMutex<Option<Incarnation>>,
}

#[derive(Default)]
struct Slot {
    open: Option<Open>,
    /// The owner of the store has given it up.
    is_closed: bool,
    /// How far subscriptions had come. Outlives connections: a server that was put back to an older state
    /// does not know that it was.
    reached: HashMap<String, Reached>,
}

/// How far a subscription had come when this process last knew of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reached {
    pub(super) epoch: Epoch,
    pub(super) floor: Position,
}

/// The connection of the moment.
struct Open {
    session: Session,
    /// Subscriptions whose lease was taken over this connection.
    leases: HashSet<String>,
}

/// The right to use the connection.
pub(super) struct Turn<'a>(MutexGuard<'a, Slot>);

impl Line {
    /// A line that is not connected yet.
    pub(super) fn new(config: PostgresConfig) -> Self {
        Self { config, slot: Mutex::default(), server: StdMutex::new(None) }
    }

    /// The server behind the latest connection.
    pub(super) fn server(&self) -> Option<Incarnation> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the connection; makes a new one if it is lost.
    pub(super) async fn turn(&self) -> Result<Turn<'_>> {
        let mut slot = self.slot.lock().await;
        if slot.is_closed {
            return Err(Error::new(Code::StoreFailed, "the store is closed"));
        }
        if slot.open.as_ref().is_none_or(|open| open.session.client.is_closed()) {
            slot.open = None;
            let session = self.config.connect().await?;
            *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.incarnation.clone());
            slot.open = Some(Open { session, leases: HashSet::new() });
        }
        Ok(Turn(slot))
    }

    /// Gives the connection back after the turns that wait for it; there is none afterwards.
    pub(super) async fn close(&self) {
        *self.slot.lock().await = Slot { is_closed: true, ..Slot::default() };
    }
}

impl Turn<'_> {
    fn open(&mut self) -> Result<&mut Open> {
        // `turn` put it there; the type cannot know.
        self.0
            .open
            .as_mut()
            .ok_or_else(|| Error::new(Code::StoreFailed, "the connection to PostgreSQL is gone"))
    }

    /// Which server this is.
    pub(super) fn incarnation(&mut self) -> Result<Incarnation> {
        Ok(self.open()?.session.incarnation.clone())
    }

    /// How far a subscription had come, if this process has ever owned it.
    pub(super) fn reached(&self, subscription: &str) -> Option<Reached> {
        self.0.reached.get(subscription).copied()
    }

    /// Remembers how far a subscription has come, or forgets it.
    pub(super) fn set_reached(&mut self, subscription: &str, reached: Option<Reached>) {
        match reached {
            Some(reached) => _ = self.0.reached.insert(subscription.to_owned(), reached),
            None => _ = self.0.reached.remove(subscription),
        }
    }

    /// Remembers that a lease was taken over this connection.
    pub(super) fn remember_lease(&mut self, subscription: &str) -> Result<()> {
        self.open()?.leases.insert(subscription.to_owned());
        Ok(())
    }

    /// Refuses a lease that was taken over a connection that is lost.
    pub(super) fn check_lease(&mut self, subscription: &str) -> Result<()> {
        if self.open()?.leases.contains(subscription) {
            return Ok(());
        }
        let what = format!("the connection on which the lease of {subscription:?} was taken is gone");
        Err(Error::new(Code::StoreFailed, what).hint("nothing to do: the lease is taken anew"))
    }

    /// Runs one statement that stands for itself: when it is answered, it is committed.
    pub(super) async fn query(&mut self, statement: &'static str, params: Params<'_>) -> Result<Vec<Row>> {
        let Session { client, statements, .. } = &self.open()?.session;
        let statement = statements.get(client, statement).await?;
        client.query(&statement, params).await.map_err(commit_failed)
    }

    /// Runs one statement that changes nothing.
    pub(super) async fn read(&mut self, statement: &'static str, params: Params<'_>) -> Result<Vec<Row>> {
        let Session { client, statements, .. } = &self.open()?.session;
        let statement = statements.get(client, statement).await?;
        client.query(&statement, params).await.map_err(failed)
    }

    /// Begins a transaction that sees one snapshot and writes nothing.
    pub(super) async fn look(&mut self) -> Result<Work<'_>> {
        let Session { client, statements, .. } = &mut self.open()?.session;
        let looking =
            client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        Ok(Work { transaction: looking.start().await.map_err(failed)?, statements })
    }

    /// Begins a transaction; dropped without a commit it is rolled back.
    pub(super) async fn begin(&mut self) -> Result<Work<'_>> {
        let Session { client, statements, .. } = &mut self.open()?.session;
        Ok(Work { transaction: client.transaction().await.map_err(failed)?, statements })
    }
}

/// A transaction of several statements.
pub(super) struct Work<'a> {
    transaction: Transaction<'a>,
    statements: &'a Statements,
}

impl Work<'_> {
    fn client(&self) -> &Client {
        self.transaction.client()
    }

    pub(super) async fn query(&self, statement: &'static str, params: Params<'_>) -> Result<Vec<Row>> {
        let statement = self.statements.get(self.client(), statement).await?;
        self.transaction.query(&statement, params).await.map_err(failed)
    }

    /// The first row, if there is one.
    pub(super) async fn query_opt(&self, statement: &'static str, params: Params<'_>) -> Result<Option<Row>> {
        Ok(self.query(statement, params).await?.into_iter().next())
    }

    /// How many rows were changed.
    pub(super) async fn execute(&self, statement: &'static str, params: Params<'_>) -> Result<u64> {
        let statement = self.statements.get(self.client(), statement).await?;
        self.transaction.execute(&statement, params).await.map_err(failed)
    }

    pub(super) async fn commit(self) -> Result<()> {
        self.transaction.commit().await.map_err(commit_failed)
    }
}

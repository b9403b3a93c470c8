//! A database in memory for the executor of actions.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider::action::{CommitError, Database, Entity, Repository};
use postrider::inbox::{Inbox, Received};
use postrider::write::ActionRecord;
use postrider::{Code, Error, Event, Outbox, Position, Result, Written};
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

use super::Emitted;

/// A database in memory: rows, events and records of actions. An [`Executor`](postrider::action::Executor) on it behaves as on
/// a real one: one transaction, versions, all or nothing. Clones share the content.
///
/// An action can be tested with it if it reads through a trait of the application, or through
/// [`MemoryRepository`]. An action with a repository of a driver is tested with a real database.
#[derive(Clone, Default)]
pub struct MemoryDatabase {
    content: Arc<Mutex<Content>>,
    /// One transaction at a time.
    writer: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Content {
    /// The rows of each type by their id, as `BTreeMap<String, M>`.
    tables: HashMap<TypeId, Box<dyn Any + Send>>,
    events: Vec<Event>,
    actions: Vec<ActionRecord>,
    /// The inbox: groups and ids.
    received: HashSet<(String, Uuid)>,
}

impl Content {
    fn table<M: Entity + Clone>(&mut self) -> Option<&mut BTreeMap<String, M>> {
        let new = || Box::new(BTreeMap::<String, M>::new()) as Box<dyn Any + Send>;
        self.tables.entry(TypeId::of::<M>()).or_insert_with(new).downcast_mut()
    }
}

impl MemoryDatabase {
    /// An empty database.
    pub fn new() -> Self {
        Self::default()
    }

    /// The repository of a type, to register and to read with. Repositories of one type share their rows.
    pub fn repository<M: Entity + Clone>(&self) -> MemoryRepository<M> {
        MemoryRepository { database: self.clone(), entity: std::marker::PhantomData }
    }

    /// The committed events, for assertions.
    pub fn emitted(&self) -> Emitted {
        Emitted::numbered(self.content().events.iter().cloned())
    }

    /// The records of committed actions that have no event.
    pub fn actions(&self) -> Vec<ActionRecord> {
        self.content().actions.clone()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryDatabase").field("events", &self.content().events.len()).finish_non_exhaustive()
    }
}

/// What a transaction does when it commits.
type Change = Box<dyn FnOnce(&mut Content) + Send>;

/// A transaction of a [`MemoryDatabase`].
pub struct MemoryTransaction {
    database: MemoryDatabase,
    changes: Vec<Change>,
    _turn: OwnedMutexGuard<()>,
}

impl fmt::Debug for MemoryTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTransaction").field("changes", &self.changes.len()).finish_non_exhaustive()
    }
}

/// A row that cannot be inserted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryError(String);

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MemoryError {}

impl Database for MemoryDatabase {
    type Transaction = MemoryTransaction;
    type Error = MemoryError;

    async fn begin(&self) -> Result<MemoryTransaction> {
        let turn = self.writer.clone().lock_owned().await;
        Ok(MemoryTransaction { database: self.clone(), changes: Vec::new(), _turn: turn })
    }

    async fn commit(tx: MemoryTransaction) -> Result<(), CommitError> {
        let mut content = tx.database.content();
        tx.changes.into_iter().for_each(|change| change(&mut content));
        Ok(())
    }

    async fn rollback(_: MemoryTransaction) {}

    /// Events are checked as the outbox checks them.
    async fn write_events(
        tx: &mut MemoryTransaction,
        outbox: &Outbox,
        events: Vec<Event>,
    ) -> Result<Vec<Written>> {
        events
            .iter()
            .try_for_each(|event| outbox.check(event, format_args!("event {}", event.event_type)))?;
        let written = events.iter().map(|event| Written::new(event.id, Position::ZERO)).collect();
        tx.changes.push(Box::new(move |content| content.events.extend(events)));
        Ok(written)
    }

    async fn record_action(tx: &mut MemoryTransaction, _: &Outbox, record: ActionRecord) -> Result<()> {
        tx.changes.push(Box::new(move |content| content.actions.push(record)));
        Ok(())
    }

    async fn receive(tx: &mut MemoryTransaction, _: &Inbox, group: &str, id: Uuid) -> Result<Received> {
        let key = (group.to_owned(), id);
        if tx.database.content().received.contains(&key) {
            return Ok(Received::Duplicate);
        }
        tx.changes.push(Box::new(move |content| {
            content.received.insert(key);
        }));
        Ok(Received::First)
    }

    fn failed(error: MemoryError) -> Error {
        Error::new(Code::StoreFailed, error.to_string()).with_source(error)
    }
}

/// The rows of one type in a [`MemoryDatabase`].
pub struct MemoryRepository<M> {
    database: MemoryDatabase,
    entity: std::marker::PhantomData<fn() -> M>,
}

impl<M: Entity + Clone> MemoryRepository<M> {
    /// Puts a row there, as if it had been committed before the test.
    pub fn put(&self, row: M) {
        if let Some(table) = self.database.content().table::<M>() {
            table.insert(row.id().to_string(), row);
        }
    }

    /// The row with this id, or none.
    pub fn get(&self, id: &M::Id) -> Option<M> {
        self.database.content().table::<M>().and_then(|table| table.get(&id.to_string()).cloned())
    }

    /// The row with this id.
    ///
    /// # Errors
    /// [`Code::EntityMissing`] if there is none, as `SqlxRepository` says it.
    pub fn find(&self, id: &M::Id) -> Result<M> {
        let missing = || Error::new(Code::EntityMissing, format!("there is no {} {id}", M::NAME));
        self.get(id).ok_or_else(missing)
    }

    /// All rows, by id.
    pub fn all(&self) -> Vec<M> {
        self.database
            .content()
            .table::<M>()
            .map(|table| table.values().cloned().collect())
            .unwrap_or_default()
    }
}

impl<M> Clone for MemoryRepository<M> {
    fn clone(&self) -> Self {
        Self { database: self.database.clone(), entity: std::marker::PhantomData }
    }
}

impl<M> fmt::Debug for MemoryRepository<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRepository").finish_non_exhaustive()
    }
}

impl<M: Entity + Clone> Repository<M, MemoryDatabase> for MemoryRepository<M> {
    async fn insert(&self, tx: &mut MemoryTransaction, rows: &[M]) -> Result<u64, MemoryError> {
        if let Some(row) = rows.iter().find(|row| self.get(row.id()).is_some()) {
            return Err(MemoryError(format!("{} {} exists", M::NAME, row.id())));
        }
        tx.change(rows.to_vec());
        Ok(rows.len() as u64)
    }

    async fn update(&self, tx: &mut MemoryTransaction, rows: &[M]) -> Result<u64, MemoryError> {
        let is_current =
            |row: &&M| self.get(row.id()).is_some_and(|stored| stored.version() == row.version());
        let next = |row: &M| {
            let mut row = row.clone();
            row.set_version(row.version() + 1);
            row
        };
        let changed: Vec<M> = rows.iter().filter(is_current).map(next).collect();
        let count = changed.len() as u64;
        tx.change(changed);
        Ok(count)
    }
}

impl MemoryTransaction {
    fn change<M: Entity + Clone>(&mut self, rows: Vec<M>) {
        self.changes.push(Box::new(move |content| {
            if let Some(table) = content.table::<M>() {
                table.extend(rows.into_iter().map(|row| (row.id().to_string(), row)));
            }
        }));
    }
}

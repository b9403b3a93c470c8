//! The handle a consumer receives with.

use std::time::Duration;

use uuid::Uuid;

use super::{InboxStep, InboxTable, Once, Received};
use crate::write::{AsyncTransaction, BlockingTransaction, Step, Transaction};
use crate::{Error, Ident, Result};

/// Rows are kept for this long unless the consumer sets another time: longer than the seven days of an outbox and of a
/// Kafka topic by default, with time left to repair and replay what failed.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Makes the effect of an event happen once per consumer group. Holds no connection and is cheap to clone; one per
/// program is enough.
///
/// It keeps no state about events: the rows of the table `inbox` are all there is. The table is part of the migrations of
/// every outbox; a database that only consumes needs `postrider migrate up` as well.
///
/// ```
/// # #[cfg(feature = "sqlx-postgres")]
/// # async fn consume(pool: sqlx::PgPool, event_id: uuid::Uuid) -> Result<(), Box<dyn std::error::Error>> {
/// use postrider::Inbox;
/// use postrider::inbox::Received;
///
/// let inbox = Inbox::new();
///
/// let mut tx = pool.begin().await?;
/// if inbox.receive(&mut tx, "mailer", event_id).await? == Received::First {
///     sqlx::query("INSERT INTO mails (order_id) VALUES (42)").execute(&mut *tx).await?;
/// }
/// tx.commit().await?; // then acknowledge the message
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Inbox {
    table: InboxTable,
    retention: Duration,
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Inbox {
    /// The inbox in the schema `postrider`, with a retention of 30 days.
    pub fn new() -> Self {
        Self { table: InboxTable::Postrider(Ident::default()), retention: RETENTION }
    }

    /// The table `processed_events` of layout `outbox` in this schema of PostgreSQL, as it is.
    ///
    /// If its key is `event_id` alone, as the layout defines it, the table serves one consumer group: a second group would
    /// find its events done by the first and lose its own effect, so it is refused with
    /// [`Code::InboxUnfit`](crate::Code::InboxUnfit). With the key `(consumer_group, event_id)` it serves every group.
    /// Rows expire after the [`retention`](Self::retention), and never before the 24 hours of the layout.
    pub fn processed_events(schema: Ident) -> Self {
        Self { table: InboxTable::ProcessedEvents(schema), retention: RETENTION }
    }

    /// The PostgreSQL schema, or the MySQL or MariaDB database, with the inbox; `postrider` if not given. SQLite has
    /// none.
    #[must_use]
    pub fn schema(mut self, schema: Ident) -> Self {
        self.table = self.table.in_schema(schema);
        self
    }

    /// How long an event is remembered. The default is 30 days. A delivery after that has its effect again, so choose it
    /// longer than events can come back: the retention of the producer's outbox and of the topic or queue, and the time
    /// until dead letters are replayed.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Records in the caller's transaction that `group` processes the event, and runs `effect` if the group has not
    /// processed it before. The effect gets the same transaction. Nothing is committed here: the caller commits, and then
    /// acknowledges the message.
    ///
    /// If two deliveries of one event meet, the second waits until the transaction of the first ends. If that one
    /// committed, the answer is [`Once::Duplicate`]; if it rolled back, the effect runs here.
    ///
    /// If the process crashes before the commit, neither the row nor the effect exists, and the next delivery applies the
    /// event. If it crashes after the commit and before the acknowledgement, the next delivery is a duplicate.
    ///
    /// What the effect does outside of this transaction, such as a call to another service, is not covered. Write an
    /// event to an outbox in the same transaction instead, and let a relay deliver it.
    ///
    /// # Errors
    /// An error of the effect is returned as it is. After any error, roll the transaction back: if it were committed, the
    /// event would count as processed without its effect. Then deliver the event again.
    /// - [`Code::NameInvalid`](crate::Code::NameInvalid): the group's name is not 1 to 255 bytes of printable text.
    ///   Nothing was sent to the database.
    /// - [`Code::StoreBusy`](crate::Code::StoreBusy): retry the whole transaction. PostgreSQL reports it if two deliveries
    ///   meet at REPEATABLE READ or SERIALIZABLE, MySQL and MariaDB if a transaction for which several deliveries wait
    ///   rolls back, SQLite if the file is locked for longer than the connection's `busy_timeout`.
    /// - [`Code::InboxUnfit`](crate::Code::InboxUnfit): `processed_events` does not serve this group.
    /// - [`Code::SchemaMissing`](crate::Code::SchemaMissing): there is no inbox table; run `postrider migrate up`.
    ///
    /// # Transactions
    /// A connection without an open transaction commits the row by itself, before the effect runs: a crash in between
    /// loses the effect. Begin a transaction first.
    ///
    /// # Tasks
    /// The compiler does not see that the future of an async closure can move between threads ("implementation of
    /// `AsyncFnOnce` is not general enough"). In a handler, in `tokio::spawn` and in the functions of most web frameworks,
    /// use [`receive`](Self::receive) and run the effect after it.
    ///
    /// # Cancel safety
    /// After the future is dropped, the row may be in the transaction without its effect: roll back.
    pub async fn once<X, T, E>(
        &self,
        mut tx: X,
        group: &str,
        event_id: Uuid,
        effect: impl AsyncFnOnce(X) -> Result<T, E>,
    ) -> Result<Once<T>, E>
    where
        X: AsyncTransaction,
        E: From<Error>,
    {
        match received(tx.step_on(self.received(group, event_id)).await?) {
            Received::First => effect(tx).await.map(Once::Applied),
            Received::Duplicate => Ok(Once::Duplicate),
        }
    }

    /// As [`Inbox::once`], for a blocking driver: rusqlite.
    ///
    /// # Errors
    /// As [`Inbox::once`]. [`Code::TransactionMissing`](crate::Code::TransactionMissing) if no transaction is open.
    pub fn once_blocking<X, T, E>(
        &self,
        tx: X,
        group: &str,
        event_id: Uuid,
        effect: impl FnOnce(X) -> Result<T, E>,
    ) -> Result<Once<T>, E>
    where
        X: BlockingTransaction,
        E: From<Error>,
    {
        match received(tx.step_on(self.received(group, event_id))?) {
            Received::First => effect(tx).map(Once::Applied),
            Received::Duplicate => Ok(Once::Duplicate),
        }
    }

    /// The first half of [`Inbox::once`], for tasks and for an effect that does not fit a closure: records that `group` processes the
    /// event, and reports whether it is new. Run the effect only after [`Received::First`], in the same transaction.
    ///
    /// Returns what the driver's own calls return: a result from rusqlite, a future from the others.
    ///
    /// # Errors
    /// As [`Inbox::once`].
    ///
    /// # Cancel safety
    /// After the future is dropped, the row may be in the transaction or not: roll back.
    pub fn receive<X: Transaction>(&self, tx: X, group: &str, event_id: Uuid) -> X::Out<Received> {
        tx.step(self.received(group, event_id), |rows| Ok(received(rows)))
    }

    /// Deletes up to `rows_max` rows that have expired, of all groups, and returns their number. A relay on the same
    /// database does this by itself; this is for programs without one. Call it again while it returns `rows_max`.
    ///
    /// # Errors
    /// What the database says. Nothing was deleted.
    ///
    /// # Cancel safety
    /// After the future is dropped, the rows may be deleted in the transaction or not.
    pub fn delete_expired<X: Transaction>(&self, tx: X, rows_max: usize) -> X::Out<u64> {
        tx.step(Ok(Step::Inbox(InboxStep::delete_expired(&self.table, rows_max))), Ok)
    }

    fn received(&self, group: &str, event_id: Uuid) -> Result<Step> {
        InboxStep::receive(&self.table, group, event_id, self.retention).map(Step::Inbox)
    }
}

/// One row inserted: the event is new.
fn received(rows: u64) -> Received {
    if rows == 0 { Received::Duplicate } else { Received::First }
}

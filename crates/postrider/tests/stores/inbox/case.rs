//! What a database implements for the cases: an inbox, a table of effects, and consumers with their own connections.

use std::sync::Arc;

use postrider::inbox::{Inbox, Once, Received};
use postrider::store::Store;
use postrider::{Code, Result};
use uuid::Uuid;

/// How a delivery ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    Rollback,
    /// The effect fails, and the consumer returns its error.
    EffectFails,
    /// The consumer crashes after the inbox row was inserted: its connection is closed in the open transaction.
    CrashAfterRow,
    /// The same after the effect.
    CrashAfterEffect,
    /// The transaction is committed, and the consumer crashes before it acknowledges the message.
    CrashAfterCommit,
}

impl End {
    /// Every point at which a delivery can fail.
    pub(crate) const CRASHES: [Self; 5] = [
        Self::Rollback,
        Self::EffectFails,
        Self::CrashAfterRow,
        Self::CrashAfterEffect,
        Self::CrashAfterCommit,
    ];

    /// Whether the consumer acknowledges the delivery.
    pub(crate) fn is_acknowledged(self) -> bool {
        self == Self::Commit
    }

    /// The result of an effect that has inserted its row.
    pub(crate) fn of_effect(self) -> Result<()> {
        match self {
            Self::EffectFails => Err(crate::failed(std::io::Error::other("the effect failed"))),
            _ => Ok(()),
        }
    }
}

/// The statement with the names of the tables in a schema. `{inbox}` is the inbox, and `effects` the table next to it.
pub(crate) fn in_schema(sql: &str) -> String {
    sql.replace("{inbox}", "{schema}.inbox").replace(" effects", " {schema}.effects")
}

/// How duplicates of the effect are prevented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Design {
    /// By [`Inbox::once`].
    Inbox,
    /// Not at all: an injected bug, which the cases must detect.
    NoRow,
    /// By a SELECT before the effect and an INSERT after it: an injected bug where transactions run concurrently.
    CheckThenAct,
}

/// One database with an inbox and a table `effects (consumer_group, event_id)`.
pub(crate) trait InboxCase: Send + Sync + Sized + 'static {
    type Consumer: Consumer;

    /// `None` if there is no such server.
    async fn new() -> Option<Self>;

    fn inbox(&self) -> Inbox;

    fn consumer(&self) -> impl Future<Output = Self::Consumer> + Send;

    /// The store of a relay on it.
    async fn store(&self) -> Arc<dyn Store>;

    /// Runs statements. `{inbox}` is the table.
    async fn run(&self, sql: &str);

    /// The number that a query returns.
    async fn number(&self, sql: &str) -> i64;

    /// The name of the database.
    const NAME: &'static str;

    /// Whether transactions write concurrently.
    const IS_CONCURRENT: bool = true;

    /// The query for the number of transactions that wait for another one, if the database reports that.
    const WAITING: Option<&'static str>;

    /// The SQL of a time this many days from now, in the format of the columns.
    fn days_from_now(days: i32) -> String;

    /// The SQL of an event's id.
    fn id(id: Uuid) -> String;

    async fn effects(&self, group: &str, id: Uuid) -> i64 {
        let sql = format!(
            "SELECT COUNT(*) FROM effects WHERE consumer_group = '{}' AND event_id = '{id}'",
            group.replace('\'', "''")
        );
        self.number(&sql).await
    }

    /// The rows of the inbox.
    async fn rows(&self) -> i64 {
        self.number("SELECT COUNT(*) FROM {inbox}").await
    }
}

/// A consumer with a connection. A database implements the single steps; the deliveries are the same on all databases.
pub(crate) trait Consumer: Send + 'static {
    /// Begins a transaction with a statement: that of a driver would roll back when it is dropped.
    fn begin(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Ends the open transaction.
    fn end(&mut self, is_committed: bool) -> impl Future<Output = Result<()>> + Send;

    /// Opens a new connection instead of the current one. The server rolls back what the lost connection left open.
    fn reconnect(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// [`Inbox::receive`] in the open transaction.
    fn receive(&mut self, inbox: &Inbox, delivery: Delivery)
    -> impl Future<Output = Result<Received>> + Send;

    /// [`Inbox::once`] with the effect, in the open transaction.
    fn once(
        &mut self,
        inbox: &Inbox,
        delivery: Delivery,
        end: End,
    ) -> impl Future<Output = Result<Once<()>>> + Send;

    /// Inserts the row of the effect in the open transaction; then fails, if the effect is meant to.
    fn effect(&mut self, delivery: Delivery, end: End) -> impl Future<Output = Result<()>> + Send;

    /// Whether the inbox has a row of the delivery.
    fn has_row(&mut self, delivery: Delivery) -> impl Future<Output = Result<bool>> + Send;

    /// Deletes expired rows in one transaction.
    fn delete_expired(&mut self, inbox: &Inbox, rows_max: usize) -> impl Future<Output = Result<u64>> + Send;

    /// Begins a transaction and receives the event, and leaves the transaction open.
    fn hold(&mut self, inbox: &Inbox, delivery: Delivery) -> impl Future<Output = Result<Received>> + Send {
        async move {
            self.begin().await?;
            self.receive(inbox, delivery).await
        }
    }

    /// One delivery in one transaction. After a crash the consumer has a new connection.
    fn deliver(
        &mut self,
        inbox: &Inbox,
        delivery: Delivery,
        end: End,
    ) -> impl Future<Output = Result<Once<()>>> + Send {
        async move {
            let delivered = self.transaction(inbox, delivery, end).await;
            if matches!(end, End::CrashAfterRow | End::CrashAfterEffect | End::CrashAfterCommit) {
                self.reconnect().await?;
            }
            delivered
        }
    }

    /// The transaction of [`deliver`](Self::deliver).
    fn transaction(
        &mut self,
        inbox: &Inbox,
        delivery: Delivery,
        end: End,
    ) -> impl Future<Output = Result<Once<()>>> + Send {
        async move {
            self.begin().await?;
            if end == End::CrashAfterRow {
                return self.receive(inbox, delivery).await.map(|_| Once::Duplicate);
            }
            let once = match delivery.design {
                Design::Inbox => self.once(inbox, delivery, end).await,
                Design::NoRow => self.effect(delivery, end).await.map(Once::Applied),
                Design::CheckThenAct => {
                    if !self.has_row(delivery).await? {
                        self.effect(delivery, end).await?;
                        _ = self.receive(inbox, delivery).await?;
                    }
                    Ok(Once::Applied(()))
                }
            };
            match (&once, end) {
                (Ok(_), End::Commit | End::CrashAfterCommit) => self.end(true).await?,
                (Ok(_), End::CrashAfterEffect) => {}
                _ => self.end(false).await?,
            }
            once
        }
    }

    /// Repeats the delivery until the database accepts it, as a broker does after a negative acknowledgement. Also
    /// returns how often it was refused.
    fn deliver_again(
        &mut self,
        inbox: &Inbox,
        delivery: Delivery,
    ) -> impl Future<Output = (Once<()>, u32)> + Send {
        async move {
            let mut refused = 0;
            loop {
                match self.deliver(inbox, delivery, End::Commit).await {
                    Ok(once) => return (once, refused),
                    Err(error) if error.code() == Code::StoreBusy => refused += 1,
                    Err(error) => panic!("{}", error.report()),
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivery {
    pub(crate) group: &'static str,
    pub(crate) id: Uuid,
    pub(crate) design: Design,
}

impl Delivery {
    pub(crate) fn of(group: &'static str, id: Uuid) -> Self {
        Self { group, id, design: Design::Inbox }
    }
}

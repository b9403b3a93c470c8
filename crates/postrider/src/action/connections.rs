//! Connections of any pool, for drivers without their own: tokio-postgres and diesel-async.

use std::fmt;
use std::ops::DerefMut;
use std::sync::Arc;

use uuid::Uuid;

use super::{CommitError, Database};
use crate::inbox::{Inbox, Received};
use crate::write::ActionRecord;
use crate::{BoxFuture, Code, Error, Event, Outbox, Result, Written};

/// A connection that begins and ends transactions: `tokio_postgres::Client`, `AsyncPgConnection` and `AsyncMysqlConnection`.
///
/// THIS SEAM IS UNSTABLE: do not implement it.
pub trait Connection: Send + 'static {
    #[doc(hidden)]
    type Error: std::error::Error + Send + Sync + 'static;

    #[doc(hidden)]
    fn begin(&mut self) -> BoxFuture<'_, Result<(), Self::Error>>;

    #[doc(hidden)]
    fn commit(&mut self) -> BoxFuture<'_, Result<(), Self::Error>>;

    #[doc(hidden)]
    fn rollback(&mut self) -> BoxFuture<'_, Result<(), Self::Error>>;

    #[doc(hidden)]
    fn write_events<'a>(
        &'a mut self,
        outbox: &'a Outbox,
        events: Vec<Event>,
    ) -> BoxFuture<'a, Result<Vec<Written>>>;

    #[doc(hidden)]
    fn record_action<'a>(&'a mut self, outbox: &'a Outbox, record: ActionRecord)
    -> BoxFuture<'a, Result<()>>;

    #[doc(hidden)]
    fn receive<'a>(
        &'a mut self,
        inbox: &'a Inbox,
        group: &'a str,
        id: Uuid,
    ) -> BoxFuture<'a, Result<Received>>;

    #[doc(hidden)]
    fn failed(error: Self::Error) -> Error;

    /// Whether this answer to a COMMIT means that the transaction was rolled back.
    #[doc(hidden)]
    fn is_rolled_back(error: &Self::Error) -> bool;
}

/// A database that takes its connections from a function: the `get` of any pool.
///
/// ```
/// # #[cfg(feature = "tokio-postgres")] {
/// use postrider::action::{Connections, Executor};
///
/// /// Connects each time; a service calls `get` of its pool here.
/// async fn client() -> Result<Box<tokio_postgres::Client>, tokio_postgres::Error> {
///     let (client, connection) = tokio_postgres::connect("postgres://localhost/shop", tokio_postgres::NoTls).await?;
///     tokio::spawn(connection);
///     Ok(Box::new(client))
/// }
///
/// let executor = Executor::builder(Connections::new(client)).namespace("shop").build()?;
/// # }
/// # Ok::<(), postrider::Error>(())
/// ```
pub struct Connections<L>(Arc<Get<L>>);

/// Gets a connection.
type Get<L> = dyn Fn() -> BoxFuture<'static, Result<L, BoxError>> + Send + Sync;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<L: DerefMut<Target: Connection>> Connections<L> {
    /// Connections of this function. It returns a smart pointer to a connection, as pools do.
    pub fn new<R, E>(get: impl Fn() -> R + Send + Sync + 'static) -> Self
    where
        R: Future<Output = Result<L, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self(Arc::new(move || {
            let getting = get();
            Box::pin(async move { getting.await.map_err(Into::into) })
        }))
    }
}

impl<L> Clone for Connections<L> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<L> fmt::Debug for Connections<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

/// A transaction on a connection of a pool. Dereferences to the connection.
///
/// If it is dropped, a task rolls it back before the pool gets the connection.
#[derive(Debug)]
pub struct OpenTransaction<L>
where
    L: DerefMut<Target: Connection> + Send + 'static,
{
    /// `None` once it is ended.
    connection: Option<L>,
}

impl<L: DerefMut<Target: Connection> + Send + 'static> OpenTransaction<L> {
    /// The connection.
    ///
    /// # Errors
    /// None while the executor lends the transaction: it is open.
    pub fn connection(&mut self) -> Result<&mut L::Target> {
        let ended = || Error::new(Code::TransactionMissing, "the transaction has ended");
        self.connection.as_deref_mut().ok_or_else(ended)
    }
}

impl<L: DerefMut<Target: Connection> + Send + 'static> Drop for OpenTransaction<L> {
    fn drop(&mut self) {
        let (Some(mut connection), Ok(runtime)) =
            (self.connection.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        runtime.spawn(async move {
            _ = connection.rollback().await;
        });
    }
}

impl<L: DerefMut<Target: Connection> + Send + 'static> Database for Connections<L> {
    type Transaction = OpenTransaction<L>;
    type Error = <L::Target as Connection>::Error;

    async fn begin(&self) -> Result<OpenTransaction<L>> {
        let no_connection =
            |error| Error::new(Code::StoreFailed, "there is no connection").with_source(error);
        let mut connection = (self.0)().await.map_err(no_connection)?;
        connection.begin().await.map_err(Self::failed)?;
        Ok(OpenTransaction { connection: Some(connection) })
    }

    async fn commit(mut tx: OpenTransaction<L>) -> Result<(), CommitError> {
        let Some(mut connection) = tx.connection.take() else { return Ok(()) };
        let Err(error) = connection.commit().await else { return Ok(()) };
        Err(CommitError::new(<L::Target as Connection>::is_rolled_back(&error), Self::failed(error)))
    }

    async fn rollback(mut tx: OpenTransaction<L>) {
        if let Some(mut connection) = tx.connection.take() {
            _ = connection.rollback().await;
        }
    }

    async fn write_events(
        tx: &mut OpenTransaction<L>,
        outbox: &Outbox,
        events: Vec<Event>,
    ) -> Result<Vec<Written>> {
        tx.connection()?.write_events(outbox, events).await
    }

    async fn record_action(tx: &mut OpenTransaction<L>, outbox: &Outbox, record: ActionRecord) -> Result<()> {
        tx.connection()?.record_action(outbox, record).await
    }

    async fn receive(tx: &mut OpenTransaction<L>, inbox: &Inbox, group: &str, id: Uuid) -> Result<Received> {
        tx.connection()?.receive(inbox, group, id).await
    }

    fn failed(error: Self::Error) -> Error {
        <L::Target as Connection>::failed(error)
    }
}

/// Writing with a connection is the same everywhere, except for how it is borrowed.
#[allow(unused_macros, reason = "which drivers there are depends on the features")]
macro_rules! write_with {
    ($connection:ident => $borrowed:expr) => {
        fn write_events<'a>(
            &'a mut self,
            outbox: &'a Outbox,
            events: Vec<Event>,
        ) -> BoxFuture<'a, Result<Vec<Written>>> {
            let $connection = self;
            outbox.write_all($borrowed, events)
        }

        fn record_action<'a>(
            &'a mut self,
            outbox: &'a Outbox,
            record: ActionRecord,
        ) -> BoxFuture<'a, Result<()>> {
            let $connection = self;
            outbox.record_action($borrowed, record)
        }

        fn receive<'a>(
            &'a mut self,
            inbox: &'a Inbox,
            group: &'a str,
            id: Uuid,
        ) -> BoxFuture<'a, Result<Received>> {
            let $connection = self;
            inbox.receive($borrowed, group, id)
        }
    };
}

#[cfg(feature = "tokio-postgres")]
impl Connection for tokio_postgres::Client {
    type Error = tokio_postgres::Error;

    fn begin(&mut self) -> BoxFuture<'_, Result<(), Self::Error>> {
        Box::pin(self.batch_execute("BEGIN"))
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), Self::Error>> {
        Box::pin(self.batch_execute("COMMIT"))
    }

    fn rollback(&mut self) -> BoxFuture<'_, Result<(), Self::Error>> {
        Box::pin(self.batch_execute("ROLLBACK"))
    }

    write_with!(client => &*client);

    fn failed(error: Self::Error) -> Error {
        crate::write::driver_error::tokio_postgres(error)
    }

    fn is_rolled_back(error: &Self::Error) -> bool {
        error.code().is_some_and(|state| crate::postgres_error::is_rolled_back(state.code()))
    }
}

#[cfg(any(feature = "diesel-mysql", feature = "diesel-postgres"))]
macro_rules! impl_diesel {
    ($connection:ty, $failed:path) => {
        impl Connection for $connection {
            type Error = diesel::result::Error;

            fn begin(&mut self) -> BoxFuture<'_, Result<(), Self::Error>> {
                Box::pin(<AnsiTransactionManager as TransactionManager<Self>>::begin_transaction(self))
            }

            fn commit(&mut self) -> BoxFuture<'_, Result<(), Self::Error>> {
                Box::pin(<AnsiTransactionManager as TransactionManager<Self>>::commit_transaction(self))
            }

            fn rollback(&mut self) -> BoxFuture<'_, Result<(), Self::Error>> {
                Box::pin(<AnsiTransactionManager as TransactionManager<Self>>::rollback_transaction(self))
            }

            write_with!(connection => connection);

            fn failed(error: Self::Error) -> Error {
                $failed(error)
            }

            fn is_rolled_back(error: &Self::Error) -> bool {
                crate::write::driver_error::is_rolled_back_by_diesel(error)
            }
        }
    };
}

#[cfg(any(feature = "diesel-mysql", feature = "diesel-postgres"))]
use diesel_async::{AnsiTransactionManager, TransactionManager};

#[cfg(feature = "diesel-postgres")]
impl_diesel!(diesel_async::AsyncPgConnection, crate::write::driver_error::diesel_postgres);

#[cfg(feature = "diesel-mysql")]
impl_diesel!(diesel_async::AsyncMysqlConnection, crate::write::driver_error::diesel_mysql);

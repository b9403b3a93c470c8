//! One transaction with each driver: the events, and then an end.

use diesel_async::{AsyncConnection as _, AsyncMysqlConnection, AsyncPgConnection};
use mysql_async::TxOpts;
use postrider::inbox::{Inbox, Once};
use postrider::write::{Transaction, Written};
use postrider::{BoxFuture, Event, Outbox, Result};
use sea_orm::TransactionTrait as _;
use sqlx::{Connection as _, MySqlConnection, PgConnection, SqliteConnection};

use crate::database::Database;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    DieselMySql,
    DieselPostgres,
    MySqlAsync,
    SeaOrm,
    SqlxMySql,
    SqlxPostgres,
    SqlxSqlite,
    TokioPostgres,
}

/// What comes after the events.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Commit,
    Rollback,
    /// This event, and then the commit, whatever became of those before it.
    OneMore(Box<Event>),
}

/// What was written, once the end has come.
macro_rules! write {
    ($outbox:ident, $events:ident, $end:ident, $tx:expr, $borrow:expr) => {{
        let written = $outbox.write_all($borrow, $events).await;
        match $end {
            End::OneMore(event) => {
                $outbox.write($borrow, *event).await.unwrap();
                $tx.commit().await.unwrap();
            }
            End::Commit => $tx.commit().await.unwrap(),
            End::Rollback => $tx.rollback().await.unwrap(),
        }
        written
    }};
}

impl Driver {
    pub(crate) async fn write(
        self,
        database: &Database,
        outbox: &Outbox,
        events: Vec<Event>,
        end: End,
    ) -> Result<Vec<Written>> {
        let url = database.url.as_str();
        match self {
            Self::DieselMySql => {
                diesel(AsyncMysqlConnection::establish(url).await.unwrap(), outbox, events, end).await
            }
            Self::DieselPostgres => {
                diesel(AsyncPgConnection::establish(url).await.unwrap(), outbox, events, end).await
            }
            Self::MySqlAsync => {
                let mut connection = mysql_async::Conn::from_url(url).await.unwrap();
                let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
                write!(outbox, events, end, tx, &mut tx)
            }
            Self::SeaOrm => {
                let connection = sea_orm::Database::connect(url).await.unwrap();
                let tx = connection.begin().await.unwrap();
                write!(outbox, events, end, tx, &tx)
            }
            Self::SqlxMySql => {
                let mut connection = MySqlConnection::connect(url).await.unwrap();
                let mut tx = connection.begin().await.unwrap();
                write!(outbox, events, end, tx, &mut tx)
            }
            Self::SqlxPostgres => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                let mut tx = connection.begin().await.unwrap();
                write!(outbox, events, end, tx, &mut tx)
            }
            Self::SqlxSqlite => {
                let mut connection = SqliteConnection::connect(url).await.unwrap();
                let mut tx = connection.begin().await.unwrap();
                write!(outbox, events, end, tx, &mut tx)
            }
            Self::TokioPostgres => {
                let (mut client, connection) =
                    tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                let tx = client.transaction().await.unwrap();
                write!(outbox, events, end, tx, &tx)
            }
        }
    }
}

/// One delivery, and then its end. The effect is an order.
macro_rules! deliver {
    ($inbox:ident, $delivery:ident, $tx:expr, $borrow:expr) => {{
        let once = $inbox.once($borrow, "mail", $delivery.id, $delivery.effect()).await;
        match $delivery.is_committed && once.is_ok() {
            true => $tx.commit().await.unwrap(),
            false => $tx.rollback().await.unwrap(),
        }
        once
    }};
}

/// A delivery to an inbox, and whether its transaction is committed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivery {
    pub(crate) id: uuid::Uuid,
    pub(crate) is_committed: bool,
}

impl Delivery {
    /// Counts only how often it ran: what it would write is not what differs between drivers.
    fn effect<X>(self) -> impl AsyncFnOnce(X) -> Result<u32> {
        async |_| Ok(1)
    }
}

impl Driver {
    /// Delivers an event in a transaction of its own.
    pub(crate) async fn deliver(
        self,
        database: &Database,
        inbox: &Inbox,
        delivery: Delivery,
    ) -> Result<Once<u32>> {
        let url = database.url.as_str();
        match self {
            Self::DieselMySql => {
                let mut tx = begun(AsyncMysqlConnection::establish(url).await.unwrap()).await;
                let once = inbox.once(&mut tx, "mail", delivery.id, delivery.effect()).await;
                ended(tx, delivery.is_committed).await;
                once
            }
            Self::DieselPostgres => {
                let mut tx = begun(AsyncPgConnection::establish(url).await.unwrap()).await;
                let once = inbox.once(&mut tx, "mail", delivery.id, delivery.effect()).await;
                ended(tx, delivery.is_committed).await;
                once
            }
            Self::MySqlAsync => {
                let mut connection = mysql_async::Conn::from_url(url).await.unwrap();
                let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
                deliver!(inbox, delivery, tx, &mut tx)
            }
            Self::SeaOrm => {
                let connection = sea_orm::Database::connect(url).await.unwrap();
                let tx = connection.begin().await.unwrap();
                deliver!(inbox, delivery, tx, &tx)
            }
            Self::SqlxMySql => {
                let mut connection = MySqlConnection::connect(url).await.unwrap();
                let mut tx = connection.begin().await.unwrap();
                deliver!(inbox, delivery, tx, &mut tx)
            }
            Self::SqlxPostgres => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                let mut tx = connection.begin().await.unwrap();
                deliver!(inbox, delivery, tx, &mut tx)
            }
            Self::SqlxSqlite => {
                let mut connection = SqliteConnection::connect(url).await.unwrap();
                let mut tx = connection.begin().await.unwrap();
                deliver!(inbox, delivery, tx, &mut tx)
            }
            Self::TokioPostgres => {
                let (mut client, connection) =
                    tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                let tx = client.transaction().await.unwrap();
                deliver!(inbox, delivery, tx, &tx)
            }
        }
    }
}

async fn begun<C: diesel_async::AsyncConnection>(mut connection: C) -> C {
    use diesel_async::TransactionManager as _;
    C::TransactionManager::begin_transaction(&mut connection).await.unwrap();
    connection
}

async fn ended<C: diesel_async::AsyncConnection>(mut connection: C, is_committed: bool) {
    use diesel_async::TransactionManager as _;
    match is_committed {
        true => C::TransactionManager::commit_transaction(&mut connection).await.unwrap(),
        false => C::TransactionManager::rollback_transaction(&mut connection).await.unwrap(),
    }
}

/// diesel's transactions are on the connection itself.
async fn diesel<C>(mut connection: C, outbox: &Outbox, events: Vec<Event>, end: End) -> Result<Vec<Written>>
where
    C: diesel_async::AsyncConnection,
    for<'c> &'c mut C: Transaction<
            Out<Vec<Written>> = BoxFuture<'c, Result<Vec<Written>>>,
            Out<Written> = BoxFuture<'c, Result<Written>>,
        >,
{
    use diesel_async::TransactionManager as _;
    C::TransactionManager::begin_transaction(&mut connection).await.unwrap();
    let written = outbox.write_all(&mut connection, events).await;
    if let End::OneMore(event) = &end {
        outbox.write(&mut connection, &**event).await.unwrap();
    }
    match end {
        End::Rollback => C::TransactionManager::rollback_transaction(&mut connection).await.unwrap(),
        _ => C::TransactionManager::commit_transaction(&mut connection).await.unwrap(),
    }
    written
}

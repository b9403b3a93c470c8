//! Drivers whose repositories an application writes itself. One repository per driver serves all tables of the cases.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use diesel::sql_types::{BigInt, Binary, Text, Uuid as SqlUuid};
use diesel_async::{AsyncConnection, AsyncMysqlConnection, AsyncPgConnection, RunQueryDsl};
use mysql_async::prelude::Queryable;
use postrider::action::{
    Connections, Database, Entity, Executor, ExecutorBuilder, OpenTransaction, Repository,
    RusqliteConnection, RusqliteTransaction, Table,
};
use postrider::{BoxFuture, Code, Error, Result};
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbErr, Statement};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::drivers::Driver;
use crate::mortal::{Life, Mortal};
use crate::place::{Layout, MySqlPlace, OnMariaDb, OnMySql, Place, Postgres, Sqlite};
use crate::wallet::{Note, Order, Wallet, Wallets};

/// The value of a column.
pub(crate) enum Cell {
    Id(Uuid),
    Number(i64),
    Text(String),
}

/// The columns of a row, in the order of [`Table::COLUMNS`].
pub(crate) trait Cells: Table {
    fn cells(&self) -> Vec<Cell>;
}

impl Cells for Wallet {
    fn cells(&self) -> Vec<Cell> {
        vec![Cell::Id(self.id), Cell::Number(self.balance), Cell::Number(self.version)]
    }
}

impl Cells for Order {
    fn cells(&self) -> Vec<Cell> {
        let Self { id, wallet, amount, version } = *self;
        vec![Cell::Id(id), Cell::Id(wallet), Cell::Number(amount), Cell::Number(version)]
    }
}

impl Cells for Note {
    fn cells(&self) -> Vec<Cell> {
        vec![Cell::Id(self.id), Cell::Text(self.text.clone()), Cell::Number(self.version)]
    }
}

/// A statement with its values. Parameters are `?`, or `$1` and so on.
struct Written(String, Vec<Cell>);

fn insert<M: Cells>(rows: &[M], is_numbered: bool) -> Written {
    let mut place = 0;
    let mut parameter = |_: &&str| {
        place += 1;
        if is_numbered { format!("${place}") } else { "?".to_owned() }
    };
    let mut row = |_: &M| {
        let values: Vec<String> = M::COLUMNS.iter().map(&mut parameter).collect();
        format!("({})", values.join(", "))
    };
    let values: Vec<String> = rows.iter().map(&mut row).collect();
    let statement =
        format!("INSERT INTO {} ({}) VALUES {}", M::TABLE[0], M::COLUMNS.join(", "), values.join(", "));
    Written(statement, rows.iter().flat_map(Cells::cells).collect())
}

/// The first column is the id, the last one the version.
fn update<M: Cells>(row: &M, is_numbered: bool) -> Written {
    let last = M::COLUMNS.len() - 1;
    let parameter = |place: usize| if is_numbered { format!("${place}") } else { "?".to_owned() };
    let set: Vec<String> =
        (1..last).map(|column| format!("{} = {}", M::COLUMNS[column], parameter(column))).collect();
    let statement = format!(
        "UPDATE {} SET {}, version = version + 1 WHERE id = {} AND version = {}",
        M::TABLE[0],
        set.join(", "),
        parameter(last),
        parameter(last + 1)
    );
    let mut cells = row.cells();
    let (id, version) = (cells.remove(0), cells.pop().unwrap());
    cells.extend([id, version]);
    Written(statement, cells)
}

/// The repository of every table and driver: [`Run`] is what differs.
#[derive(Clone, Copy)]
pub(crate) struct ByHand;

/// Runs a statement in the transaction of a driver.
pub(crate) trait Run: Database {
    const IS_NUMBERED: bool = false;

    #[allow(private_interfaces, reason = "only this module runs statements")]
    fn run(tx: &mut Self::Transaction, statement: Written) -> BoxFuture<'_, Result<u64, Self::Error>>;
}

impl<M: Cells, D: Run> Repository<M, D> for ByHand {
    async fn insert(&self, tx: &mut D::Transaction, rows: &[M]) -> Result<u64, D::Error> {
        D::run(tx, insert(rows, D::IS_NUMBERED)).await
    }

    async fn update(&self, tx: &mut D::Transaction, rows: &[M]) -> Result<u64, D::Error> {
        let mut updated = 0;
        for row in rows {
            updated += D::run(tx, update(row, D::IS_NUMBERED)).await?;
        }
        Ok(updated)
    }
}

fn register<D: Run>(builder: ExecutorBuilder<D>) -> ExecutorBuilder<D> {
    builder.repository::<Wallet, _>(ByHand).repository::<Order, _>(ByHand).repository::<Note, _>(ByHand)
}

fn mortal<D: Run>(database: D, life: &Arc<Life>) -> ExecutorBuilder<Mortal<D>> {
    Executor::builder(Mortal(database, life.clone()))
        .namespace("com.example.shop")
        .repository::<Wallet, _>(Mortal(ByHand, life.clone()))
        .repository::<Order, _>(Mortal(ByHand, life.clone()))
        .repository::<Note, _>(Mortal(ByHand, life.clone()))
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Code::StoreFailed, "the test could not read").with_source(error)
}

/// What a driver adds: its database, and how a wallet is read.
macro_rules! driver {
    ($name:ident, $database:ty, $place:ty, $layouts:expr, $connect:expr, $find:expr) => {
        pub(crate) struct $name {
            database: $database,
            url: String,
        }

        impl Driver for $name {
            type Place = $place;
            type Database = $database;
            const LAYOUTS: &'static [Layout] = $layouts;

            async fn connect(place: &Self::Place) -> Self {
                let url = place.url().to_owned();
                let connect: fn(String) -> BoxFuture<'static, $database> = $connect;
                Self { database: connect(url.clone()).await, url }
            }

            fn database(&self) -> Self::Database {
                self.database.clone()
            }

            fn wallets(&self) -> Wallets {
                let (database, url) = (self.database.clone(), self.url.clone());
                let find: fn($database, String, Uuid) -> BoxFuture<'static, Result<Wallet>> = $find;
                Wallets::new(move |id| find(database.clone(), url.clone(), id))
            }

            fn register(&self, builder: ExecutorBuilder<Self::Database>) -> ExecutorBuilder<Self::Database> {
                register(builder)
            }

            fn mortal(&self, life: &Arc<Life>) -> ExecutorBuilder<Mortal<Self::Database>> {
                mortal(self.database.clone(), life)
            }
        }
    };
}

// mysql_async

impl Run for mysql_async::Pool {
    #[allow(private_interfaces, reason = "only this module runs statements")]
    fn run<'a>(
        tx: &'a mut mysql_async::Transaction<'static>,
        Written(statement, cells): Written,
    ) -> BoxFuture<'a, Result<u64, mysql_async::Error>> {
        let value = |cell| match cell {
            Cell::Id(id) => id.as_bytes().as_slice().into(),
            Cell::Number(number) => number.into(),
            Cell::Text(text) => text.into(),
        };
        let values: Vec<mysql_async::Value> = cells.into_iter().map(value).collect();
        Box::pin(async move {
            tx.exec_drop(statement, values).await?;
            Ok(tx.affected_rows())
        })
    }
}

fn mysql_wallet(pool: mysql_async::Pool, _: String, id: Uuid) -> BoxFuture<'static, Result<Wallet>> {
    Box::pin(async move {
        let mut conn = pool.get_conn().await.map_err(failed)?;
        let found: Option<(i64, i64)> = conn
            .exec_first("SELECT balance, version FROM wallets WHERE id = ?", (id.as_bytes().as_slice(),))
            .await
            .map_err(failed)?;
        let (balance, version) = found.unwrap();
        Ok(Wallet { id, balance, version })
    })
}

fn mysql_pool(url: String) -> BoxFuture<'static, mysql_async::Pool> {
    Box::pin(async move { mysql_async::Pool::new(url.as_str()) })
}

driver!(
    MysqlAsyncMySql,
    mysql_async::Pool,
    MySqlPlace<OnMySql>,
    MySqlPlace::<OnMySql>::LAYOUTS,
    mysql_pool,
    mysql_wallet
);
driver!(
    MysqlAsyncMariaDb,
    mysql_async::Pool,
    MySqlPlace<OnMariaDb>,
    MySqlPlace::<OnMariaDb>::LAYOUTS,
    mysql_pool,
    mysql_wallet
);

// tokio-postgres

type Clients = Connections<Box<tokio_postgres::Client>>;

async fn client(url: String) -> Result<Box<tokio_postgres::Client>, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(Box::new(client))
}

impl Run for Clients {
    const IS_NUMBERED: bool = true;

    #[allow(private_interfaces, reason = "only this module runs statements")]
    fn run(
        tx: &mut OpenTransaction<Box<tokio_postgres::Client>>,
        Written(statement, cells): Written,
    ) -> BoxFuture<'_, Result<u64, tokio_postgres::Error>> {
        Box::pin(async move {
            let value = |cell: &Cell| -> Box<dyn ToSql + Sync + Send> {
                match cell {
                    Cell::Id(id) => Box::new(*id),
                    Cell::Number(number) => Box::new(*number),
                    Cell::Text(text) => Box::new(text.clone()),
                }
            };
            let values: Vec<_> = cells.iter().map(value).collect();
            let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| &**value as _).collect();
            let client: &tokio_postgres::Client = tx.connection().unwrap();
            client.execute(&statement, &values).await
        })
    }
}

driver!(
    TokioPostgres,
    Clients,
    Postgres,
    Postgres::LAYOUTS,
    |url| Box::pin(async move { Connections::new(move || client(url.clone())) }),
    |_, url, id| Box::pin(async move {
        let client = client(url).await.map_err(failed)?;
        let sql = "SELECT balance, version FROM wallets WHERE id = $1";
        let row = client.query_one(sql, &[&id]).await.map_err(failed)?;
        Ok(Wallet { id, balance: row.get(0), version: row.get(1) })
    })
);

// diesel-async

type DieselPg = Connections<Box<AsyncPgConnection>>;
type DieselMy = Connections<Box<AsyncMysqlConnection>>;

impl Run for DieselPg {
    const IS_NUMBERED: bool = true;

    #[allow(private_interfaces, reason = "only this module runs statements")]
    fn run(
        tx: &mut OpenTransaction<Box<AsyncPgConnection>>,
        Written(statement, cells): Written,
    ) -> BoxFuture<'_, Result<u64, diesel::result::Error>> {
        let query = cells.into_iter().fold(
            diesel::sql_query(statement).into_boxed::<diesel::pg::Pg>(),
            |query, cell| match cell {
                Cell::Id(id) => query.bind::<SqlUuid, _>(id),
                Cell::Number(number) => query.bind::<BigInt, _>(number),
                Cell::Text(text) => query.bind::<Text, _>(text),
            },
        );
        Box::pin(async move { Ok(query.execute(tx.connection().unwrap()).await? as u64) })
    }
}

impl Run for DieselMy {
    #[allow(private_interfaces, reason = "only this module runs statements")]
    fn run(
        tx: &mut OpenTransaction<Box<AsyncMysqlConnection>>,
        Written(statement, cells): Written,
    ) -> BoxFuture<'_, Result<u64, diesel::result::Error>> {
        let query = cells.into_iter().fold(
            diesel::sql_query(statement).into_boxed::<diesel::mysql::Mysql>(),
            |query, cell| match cell {
                Cell::Id(id) => query.bind::<Binary, _>(id.as_bytes().to_vec()),
                Cell::Number(number) => query.bind::<BigInt, _>(number),
                Cell::Text(text) => query.bind::<Text, _>(text),
            },
        );
        Box::pin(async move { Ok(query.execute(tx.connection().unwrap()).await? as u64) })
    }
}

#[derive(diesel::QueryableByName)]
struct Found {
    #[diesel(sql_type = BigInt)]
    balance: i64,
    #[diesel(sql_type = BigInt)]
    version: i64,
}

driver!(
    DieselPostgres,
    DieselPg,
    Postgres,
    Postgres::LAYOUTS,
    |url| Box::pin(async move {
        Connections::new(move || {
            let url = url.clone();
            async move { AsyncPgConnection::establish(&url).await.map(Box::new) }
        })
    }),
    |_, url, id| Box::pin(async move {
        let mut connection = AsyncPgConnection::establish(&url).await.map_err(failed)?;
        let query =
            diesel::sql_query("SELECT balance, version FROM wallets WHERE id = $1").bind::<SqlUuid, _>(id);
        let Found { balance, version } = query.get_result(&mut connection).await.map_err(failed)?;
        Ok(Wallet { id, balance, version })
    })
);

driver!(
    DieselMariaDb,
    DieselMy,
    MySqlPlace<OnMariaDb>,
    MySqlPlace::<OnMariaDb>::LAYOUTS,
    |url| Box::pin(async move {
        Connections::new(move || {
            let url = url.clone();
            async move { AsyncMysqlConnection::establish(&url).await.map(Box::new) }
        })
    }),
    |_, url, id| Box::pin(async move {
        let mut connection = AsyncMysqlConnection::establish(&url).await.map_err(failed)?;
        let query = diesel::sql_query("SELECT balance, version FROM wallets WHERE id = ?");
        let query = query.bind::<Binary, _>(id.as_bytes().to_vec());
        let Found { balance, version } = query.get_result(&mut connection).await.map_err(failed)?;
        Ok(Wallet { id, balance, version })
    })
);

// SeaORM

impl Run for DatabaseConnection {
    const IS_NUMBERED: bool = true;

    #[allow(private_interfaces, reason = "only this module runs statements")]
    fn run(
        tx: &mut DatabaseTransaction,
        Written(statement, cells): Written,
    ) -> BoxFuture<'_, Result<u64, DbErr>> {
        let value = |cell| -> sea_orm::Value {
            match cell {
                Cell::Id(id) => id.to_string().into(),
                Cell::Number(number) => number.into(),
                Cell::Text(text) => text.into(),
            }
        };
        // This build of SeaORM has no type for a UUID.
        let statement = (1..=cells.len()).filter(|place| matches!(cells[place - 1], Cell::Id(_))).rev().fold(
            statement,
            |statement, place| match statement.contains(&format!("${place},")) {
                true => statement.replacen(&format!("${place},"), &format!("${place}::uuid,"), 1),
                false => statement.replacen(&format!("${place} "), &format!("${place}::uuid "), 1),
            },
        );
        let backend = tx.get_database_backend();
        let statement = Statement::from_sql_and_values(backend, statement, cells.into_iter().map(value));
        Box::pin(async move { Ok(tx.execute_raw(statement).await?.rows_affected()) })
    }
}

driver!(
    SeaOrmPostgres,
    DatabaseConnection,
    Postgres,
    Postgres::LAYOUTS,
    |url| Box::pin(async move { sea_orm::Database::connect(url).await.unwrap() }),
    |database, _, id| Box::pin(async move {
        let sql = format!("SELECT balance, version FROM wallets WHERE id = '{id}'");
        let statement = Statement::from_string(database.get_database_backend(), sql);
        let row = database.query_one_raw(statement).await.map_err(failed)?.unwrap();
        let number = |at| row.try_get_by_index::<i64>(at).map_err(failed);
        Ok(Wallet { id, balance: number(0)?, version: number(1)? })
    })
);

// rusqlite

impl Run for RusqliteConnection {
    #[allow(private_interfaces, reason = "only this module runs statements")]
    fn run(
        tx: &mut RusqliteTransaction,
        Written(statement, cells): Written,
    ) -> BoxFuture<'_, Result<u64, rusqlite::Error>> {
        let value = |cell| match cell {
            Cell::Id(id) => rusqlite::types::Value::Blob(id.as_bytes().to_vec()),
            Cell::Number(number) => number.into(),
            Cell::Text(text) => text.into(),
        };
        let connection: &rusqlite::Connection = tx;
        let done = connection.execute(&statement, rusqlite::params_from_iter(cells.into_iter().map(value)));
        Box::pin(std::future::ready(done.map(|rows| rows as u64)))
    }
}

fn sqlite(url: &str) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(Path::new(url.trim_start_matches("sqlite://"))).unwrap();
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    connection
}

driver!(
    Rusqlite,
    RusqliteConnection,
    Sqlite,
    Sqlite::LAYOUTS,
    |url| Box::pin(async move { RusqliteConnection::new(sqlite(&url)) }),
    |_, url, id| Box::pin(async move {
        let db = sqlite(&url);
        let read = |row: &rusqlite::Row<'_>| Ok(Wallet { id, balance: row.get(0)?, version: row.get(1)? });
        let sql = "SELECT balance, version FROM wallets WHERE id = ?";
        db.query_row(sql, [id.as_bytes().as_slice()], read).map_err(failed)
    })
);

/// The id of an entity is the first column of its table, as [`update`] expects.
#[test]
fn the_tables_of_the_cases_begin_with_the_id_and_end_with_the_version() {
    fn is_fit<M: Table + Entity>() -> bool {
        M::ID == 0 && M::VERSION == M::COLUMNS.len() - 1
    }
    assert!(is_fit::<Wallet>() && is_fit::<Order>() && is_fit::<Note>());
}

//! One executor per driver.

use std::sync::Arc;
use std::time::Duration;

use postrider::action::{Database, Executor, ExecutorBuilder, SqlxRepository};
use sqlx::Pool;

pub(crate) use crate::by_hand::{
    DieselMariaDb, DieselPostgres, MysqlAsyncMariaDb, MysqlAsyncMySql, Rusqlite, SeaOrmPostgres,
    TokioPostgres,
};
use crate::mortal::{Life, Mortal};
use crate::place::{Layout, MySqlPlace, OnMariaDb, OnMySql, Place, Postgres, Sqlite};
use crate::wallet::{Note, Order, Wallet, Wallets};

/// A driver that is connected to a [`Place`].
pub(crate) trait Driver: Sized + Send + Sync + 'static {
    type Place: Place;
    type Database: Database;
    /// The layouts that it can write to.
    const LAYOUTS: &'static [Layout] = <Self::Place as Place>::LAYOUTS;

    fn connect(place: &Self::Place) -> impl Future<Output = Self> + Send;

    /// Another handle on the same pool.
    fn database(&self) -> Self::Database;

    /// Reads wallets.
    fn wallets(&self) -> Wallets;

    /// Registers the repositories.
    fn register(&self, builder: ExecutorBuilder<Self::Database>) -> ExecutorBuilder<Self::Database>;

    /// An executor with the repositories, whose program dies.
    fn mortal(&self, life: &Arc<Life>) -> ExecutorBuilder<Mortal<Self::Database>>;
}

/// A database and a driver on it.
pub(crate) struct Case<D: Driver> {
    pub(crate) place: D::Place,
    pub(crate) driver: D,
}

impl<D: Driver> Case<D> {
    /// `None` if there is no such server here.
    pub(crate) async fn new(layout: Layout) -> Option<Self> {
        let place = D::Place::create(layout).await?;
        let driver = D::connect(&place).await;
        Some(Self { place, driver })
    }

    /// An executor with the repositories, without actions.
    pub(crate) fn builder(&self) -> ExecutorBuilder<D::Database> {
        let builder = Executor::builder(self.driver.database()).namespace("com.example.shop");
        self.driver.register(builder.outbox(self.place.outbox()))
    }
}

macro_rules! sqlx_driver {
    ($name:ident, $database:ty, $place:ty, $options:ty) => {
        pub(crate) struct $name(Pool<$database>);

        impl Driver for $name {
            type Place = $place;
            type Database = Pool<$database>;

            async fn connect(place: &Self::Place) -> Self {
                let options: $options = place.url().parse().unwrap();
                let pool = sqlx::pool::PoolOptions::new().max_connections(8);
                Self(pool.acquire_timeout(Duration::from_secs(120)).connect_with(options).await.unwrap())
            }

            fn database(&self) -> Self::Database {
                self.0.clone()
            }

            fn wallets(&self) -> Wallets {
                let wallets = SqlxRepository::<Wallet, _>::new(self.0.clone());
                Wallets::new(move |id| {
                    let wallets = wallets.clone();
                    async move { wallets.find(&id).await }
                })
            }

            fn register(&self, builder: ExecutorBuilder<Self::Database>) -> ExecutorBuilder<Self::Database> {
                builder
                    .repository(SqlxRepository::<Wallet, _>::new(self.0.clone()))
                    .repository(SqlxRepository::<Order, _>::new(self.0.clone()))
                    .repository(SqlxRepository::<Note, _>::new(self.0.clone()))
            }

            fn mortal(&self, life: &Arc<Life>) -> ExecutorBuilder<Mortal<Self::Database>> {
                let pool = &self.0;
                Executor::builder(Mortal(pool.clone(), life.clone()))
                    .namespace("com.example.shop")
                    .repository::<Wallet, _>(Mortal(
                        SqlxRepository::<Wallet, _>::new(pool.clone()),
                        life.clone(),
                    ))
                    .repository::<Order, _>(Mortal(
                        SqlxRepository::<Order, _>::new(pool.clone()),
                        life.clone(),
                    ))
                    .repository::<Note, _>(Mortal(SqlxRepository::<Note, _>::new(pool.clone()), life.clone()))
            }
        }
    };
}

sqlx_driver!(SqlxSqlite, sqlx::Sqlite, Sqlite, sqlx::sqlite::SqliteConnectOptions);
sqlx_driver!(SqlxPostgres, sqlx::Postgres, Postgres, sqlx::postgres::PgConnectOptions);
sqlx_driver!(SqlxMySql, sqlx::MySql, MySqlPlace<OnMySql>, sqlx::mysql::MySqlConnectOptions);
sqlx_driver!(SqlxMariaDb, sqlx::MySql, MySqlPlace<OnMariaDb>, sqlx::mysql::MySqlConnectOptions);

/// A test for every database, with sqlx.
macro_rules! on_every_database {
    ($($name:ident,)+) => {
        crate::drivers::on_drivers! {
            [SqlxSqlite sqlite, SqlxPostgres postgres, SqlxMySql mysql, SqlxMariaDb mariadb] [$($name,)+]
        }
    };
}
pub(crate) use on_every_database;

/// A test for every driver.
macro_rules! on_every_driver {
    ($($name:ident,)+) => {
        crate::drivers::on_every_database! { $($name,)+ }
        crate::drivers::on_drivers! {
            [MysqlAsyncMySql mysql_async_mysql, MysqlAsyncMariaDb mysql_async_mariadb, TokioPostgres tokio_postgres,
             DieselPostgres diesel_postgres, DieselMariaDb diesel_mariadb, SeaOrmPostgres sea_orm_postgres,
             Rusqlite rusqlite]
            [$($name,)+]
        }
    };
}
pub(crate) use on_every_driver;

/// A test for every one of these drivers.
macro_rules! on_drivers {
    ([$($driver:ident $module:ident),+] $names:tt) => {
        $(crate::drivers::on_driver! { $driver $module $names })+
    };
}
pub(crate) use on_drivers;

macro_rules! on_driver {
    ($driver:ident $module:ident [$($name:ident,)+]) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name::<crate::drivers::$driver>().await
                }
            )+
        }
    };
}
pub(crate) use on_driver;

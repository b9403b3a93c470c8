//! sqlx: its pools as databases, and a repository for a plain table.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use ::sqlx::{AssertSqlSafe, Pool};
use tracing::Instrument;
use uuid::Uuid;

use super::{CommitError, Database, Repository, Shards, Table};
use crate::inbox::{Inbox, Received};
use crate::write::{ActionRecord, driver_error};
use crate::{BoxFuture, Code, Error, Event, Outbox, Result, Written};

/// A database of sqlx that Postrider knows: `Sqlite`, `Postgres` and `MySql`, which is also MariaDB.
///
/// THIS SEAM IS UNSTABLE: do not implement it.
pub trait SqlxDialect: ::sqlx::Database + ::sqlx::database::HasStatementCache {
    /// The statement that begins a transaction.
    #[doc(hidden)]
    const BEGIN: &'static str;
    /// Parameters of one statement.
    #[doc(hidden)]
    const PARAMETERS_MAX: usize;

    /// A checked name between quotes.
    #[doc(hidden)]
    fn quoted(name: &str) -> String;

    /// The parameter at this place, counted from 1.
    #[doc(hidden)]
    fn parameter(place: usize) -> String;

    /// Runs a statement and returns how many rows it changed. `is_cached`: its prepared form stays on the connection.
    #[doc(hidden)]
    fn execute<'a>(
        tx: &'a mut ::sqlx::Transaction<'static, Self>,
        statement: String,
        arguments: Self::Arguments,
        is_cached: bool,
    ) -> BoxFuture<'a, Result<u64, ::sqlx::Error>>;

    /// The only row of a query.
    #[doc(hidden)]
    fn fetch(
        pool: Pool<Self>,
        statement: String,
        arguments: Self::Arguments,
    ) -> BoxFuture<'static, Result<Option<Self::Row>, ::sqlx::Error>>;

    /// An error with its code.
    #[doc(hidden)]
    fn failed(error: ::sqlx::Error) -> Error;

    /// Whether an answer of the server to a COMMIT means that the transaction was rolled back.
    #[doc(hidden)]
    fn is_rolled_back(answer: &dyn ::sqlx::error::DatabaseError) -> bool;

    #[doc(hidden)]
    fn write_events<'a>(
        tx: &'a mut ::sqlx::Transaction<'static, Self>,
        outbox: &'a Outbox,
        events: Vec<Event>,
    ) -> BoxFuture<'a, Result<Vec<Written>>>;

    #[doc(hidden)]
    fn record_action<'a>(
        tx: &'a mut ::sqlx::Transaction<'static, Self>,
        outbox: &'a Outbox,
        record: ActionRecord,
    ) -> BoxFuture<'a, Result<()>>;

    #[doc(hidden)]
    fn receive<'a>(
        tx: &'a mut ::sqlx::Transaction<'static, Self>,
        inbox: &'a Inbox,
        group: &'a str,
        id: Uuid,
    ) -> BoxFuture<'a, Result<Received>>;
}

/// What differs between the databases of sqlx.
macro_rules! impl_dialect {
    ($database:ty, begin: $begin:literal, parameters: $parameters:literal, quote: $quote:literal,
     parameter: $parameter:expr, failed: $failed:expr, is_rolled_back: $is_rolled_back:expr $(,)?) => {
        impl SqlxDialect for $database {
            const BEGIN: &'static str = $begin;
            const PARAMETERS_MAX: usize = $parameters;

            fn quoted(name: &str) -> String {
                format!("{0}{name}{0}", $quote)
            }

            fn parameter(place: usize) -> String {
                ($parameter)(place)
            }

            fn execute<'a>(
                tx: &'a mut ::sqlx::Transaction<'static, Self>,
                statement: String,
                arguments: Self::Arguments,
                is_cached: bool,
            ) -> BoxFuture<'a, Result<u64, ::sqlx::Error>> {
                let query = ::sqlx::query_with(AssertSqlSafe(statement), arguments).persistent(is_cached);
                Box::pin(async move { query.execute(&mut **tx).await.map(|done| done.rows_affected()) })
            }

            fn fetch(
                pool: Pool<Self>,
                statement: String,
                arguments: Self::Arguments,
            ) -> BoxFuture<'static, Result<Option<Self::Row>, ::sqlx::Error>> {
                let query = ::sqlx::query_with(AssertSqlSafe(statement), arguments);
                Box::pin(async move { query.fetch_optional(&pool).await })
            }

            fn failed(error: ::sqlx::Error) -> Error {
                ($failed)(error)
            }

            fn is_rolled_back(answer: &dyn ::sqlx::error::DatabaseError) -> bool {
                ($is_rolled_back)(answer)
            }

            fn write_events<'a>(
                tx: &'a mut ::sqlx::Transaction<'static, Self>,
                outbox: &'a Outbox,
                events: Vec<Event>,
            ) -> BoxFuture<'a, Result<Vec<Written>>> {
                outbox.write_all(tx, events)
            }

            fn record_action<'a>(
                tx: &'a mut ::sqlx::Transaction<'static, Self>,
                outbox: &'a Outbox,
                record: ActionRecord,
            ) -> BoxFuture<'a, Result<()>> {
                outbox.record_action(tx, record)
            }

            fn receive<'a>(
                tx: &'a mut ::sqlx::Transaction<'static, Self>,
                inbox: &'a Inbox,
                group: &'a str,
                id: Uuid,
            ) -> BoxFuture<'a, Result<Received>> {
                inbox.receive(tx, group, id)
            }
        }
    };
}

#[cfg(feature = "sqlx-sqlite")]
impl_dialect! {
    ::sqlx::Sqlite,
    begin: "BEGIN IMMEDIATE",
    parameters: 32_766,
    quote: '"',
    parameter: |_| "?".to_owned(),
    failed: driver_error::sqlx_sqlite,
    is_rolled_back: |answer: &dyn ::sqlx::error::DatabaseError| {
        answer.code().and_then(|code| code.parse().ok()).is_some_and(crate::sqlite_error::is_rolled_back)
    },
}

#[cfg(feature = "sqlx-postgres")]
impl_dialect! {
    ::sqlx::Postgres,
    begin: "BEGIN",
    parameters: 65_535,
    quote: '"',
    parameter: |place| format!("${place}"),
    failed: driver_error::sqlx_postgres,
    is_rolled_back: |answer: &dyn ::sqlx::error::DatabaseError| {
        answer.code().is_some_and(|state| crate::postgres_error::is_rolled_back(&state))
    },
}

#[cfg(feature = "sqlx-mysql")]
impl_dialect! {
    ::sqlx::MySql,
    begin: "BEGIN",
    parameters: 65_535,
    quote: '`',
    parameter: |_| "?".to_owned(),
    failed: driver_error::sqlx_mysql,
    is_rolled_back: |answer: &dyn ::sqlx::error::DatabaseError| {
        mysql_number(answer).is_some_and(crate::mysql_error::is_rolled_back)
    },
}

#[cfg(feature = "sqlx-mysql")]
fn mysql_number(answer: &dyn ::sqlx::error::DatabaseError) -> Option<u16> {
    answer.try_downcast_ref::<::sqlx::mysql::MySqlDatabaseError>().map(|answer| answer.number())
}

impl<DB: SqlxDialect> Database for Pool<DB> {
    type Transaction = ::sqlx::Transaction<'static, DB>;
    type Error = ::sqlx::Error;

    /// The task of the executor is not cancelled: a `begin` of sqlx 0.9.0 that is dropped leaves its connection in a
    /// transaction (sqlx issue 4385).
    async fn begin(&self) -> Result<Self::Transaction> {
        self.begin_with(DB::BEGIN).await.map_err(DB::failed)
    }

    async fn commit(tx: Self::Transaction) -> Result<(), CommitError> {
        let Err(error) = tx.commit().await else { return Ok(()) };
        let is_rolled_back = error.as_database_error().is_some_and(DB::is_rolled_back);
        Err(CommitError::new(is_rolled_back, DB::failed(error)))
    }

    async fn rollback(tx: Self::Transaction) {
        _ = tx.rollback().await;
    }

    async fn write_events(
        tx: &mut Self::Transaction,
        outbox: &Outbox,
        events: Vec<Event>,
    ) -> Result<Vec<Written>> {
        DB::write_events(tx, outbox, events).await
    }

    async fn record_action(tx: &mut Self::Transaction, outbox: &Outbox, record: ActionRecord) -> Result<()> {
        DB::record_action(tx, outbox, record).await
    }

    async fn receive(tx: &mut Self::Transaction, inbox: &Inbox, group: &str, id: Uuid) -> Result<Received> {
        DB::receive(tx, inbox, group, id).await
    }

    fn failed(error: ::sqlx::Error) -> Error {
        DB::failed(error)
    }
}

/// The columns of an entity with sqlx. Implemented by `#[derive(Entity)]` and `#[derive(Model)]` with a table.
pub trait SqlxRow<DB: ::sqlx::Database>: Table {
    /// Adds the value of this column.
    ///
    /// # Errors
    /// What sqlx says.
    fn bind(&self, column: usize, arguments: &mut DB::Arguments) -> Result<(), ::sqlx::error::BoxDynError>;

    /// Adds an id.
    ///
    /// # Errors
    /// What sqlx says.
    fn bind_id(id: &Self::Id, arguments: &mut DB::Arguments) -> Result<(), ::sqlx::error::BoxDynError>;

    /// Reads a row whose columns are those of the table, in their order.
    ///
    /// # Errors
    /// What sqlx says.
    fn read(row: &DB::Row) -> Result<Self, ::sqlx::Error>;
}

/// A repository for a plain table: one table, a column per field, `#[model(table = "...")]`. Cheap to clone.
///
/// An update is one statement per row.
pub struct SqlxRepository<M, DB: ::sqlx::Database> {
    pools: Shards<Pool<DB>>,
    statements: Arc<Statements>,
    entity: PhantomData<fn() -> M>,
}

/// The statements of one table.
struct Statements {
    /// `INSERT INTO table (columns) VALUES `.
    insert: String,
    update: String,
    find: String,
}

impl<M: Table, DB: SqlxDialect> SqlxRepository<M, DB> {
    /// A repository that reads with connections of this pool. It writes in the transaction of an executor.
    pub fn new(pool: Pool<DB>) -> Self {
        Self::sharded(Shards::new(pool))
    }

    /// A repository that reads each row from the database of its shard. Give it a clone of the [`Shards`] that the executor
    /// writes to, so that both know the same databases.
    pub fn sharded(pools: Shards<Pool<DB>>) -> Self {
        let quoted = |names: &[&str], separator: &str| -> String {
            names.iter().map(|name| DB::quoted(name)).collect::<Vec<_>>().join(separator)
        };
        let (table, columns) = (quoted(M::TABLE, "."), quoted(M::COLUMNS, ", "));
        let (id, version) = (DB::quoted(M::COLUMNS[M::ID]), DB::quoted(M::COLUMNS[M::VERSION]));
        let mut place = 0;
        let mut parameter = || {
            place += 1;
            DB::parameter(place)
        };
        let changed =
            M::COLUMNS.iter().enumerate().filter(|(column, _)| ![M::ID, M::VERSION].contains(column));
        let mut set: Vec<String> =
            changed.map(|(_, name)| format!("{} = {}", DB::quoted(name), parameter())).collect();
        set.push(format!("{version} = {version} + 1"));
        let statements = Statements {
            insert: format!("INSERT INTO {table} ({columns}) VALUES "),
            update: format!(
                "UPDATE {table} SET {} WHERE {id} = {} AND {version} = {}",
                set.join(", "),
                parameter(),
                parameter()
            ),
            find: format!("SELECT {columns} FROM {table} WHERE {id} = {}", DB::parameter(1)),
        };
        Self { pools, statements: Arc::new(statements), entity: PhantomData }
    }

    /// The INSERT of this number of rows.
    fn insert_statement(&self, rows: usize) -> String {
        let mut place = 0;
        let mut row = || {
            let mut parameter = |_: &&str| {
                place += 1;
                DB::parameter(place)
            };
            format!("({})", M::COLUMNS.iter().map(&mut parameter).collect::<Vec<_>>().join(", "))
        };
        let values: Vec<String> = (0..rows).map(|_| row()).collect();
        format!("{}{}", self.statements.insert, values.join(", "))
    }
}

impl<M: SqlxRow<DB>, DB: SqlxDialect> SqlxRepository<M, DB> {
    /// The row with this id, or none. Index: that of the id.
    ///
    /// It reads in its own task, which ends the statement if the caller is dropped: a connection of sqlx 0.9.0 to MySQL is
    /// not usable after that, and stays in the pool.
    ///
    /// # Errors
    /// What the database says.
    pub async fn get(&self, id: &M::Id) -> Result<Option<M>> {
        let failed = |error| DB::failed(error).with_message(format!("{} {id} could not be read", M::NAME));
        let mut arguments = DB::Arguments::default();
        M::bind_id(id, &mut arguments).map_err(|error| failed(::sqlx::Error::Encode(error)))?;
        let pool = Pool::clone(&self.pools.get(M::shard_of(id)));
        let fetching = DB::fetch(pool, self.statements.find.clone(), arguments);
        let fetched = match tokio::spawn(fetching.in_current_span()).await {
            Ok(fetched) => fetched,
            Err(ended) => Err(::sqlx::Error::Io(std::io::Error::other(ended))),
        };
        let read = fetched.and_then(|found| found.map(|row| M::read(&row)).transpose());
        read.map_err(failed)
    }

    /// The row with this id.
    ///
    /// # Errors
    /// [`Code::EntityMissing`] if there is none; otherwise what the database says.
    pub async fn find(&self, id: &M::Id) -> Result<M> {
        let missing = || Error::new(Code::EntityMissing, format!("there is no {} {id}", M::NAME));
        self.get(id).await?.ok_or_else(missing)
    }
}

impl<M: SqlxRow<DB>, DB: SqlxDialect> Repository<M, Pool<DB>> for SqlxRepository<M, DB> {
    async fn insert(
        &self,
        tx: &mut ::sqlx::Transaction<'static, DB>,
        rows: &[M],
    ) -> Result<u64, ::sqlx::Error> {
        let rows_max = (DB::PARAMETERS_MAX / M::COLUMNS.len().max(1)).max(1);
        let mut inserted = 0;
        for piece in rows.chunks(rows_max) {
            let mut arguments = DB::Arguments::default();
            for row in piece {
                (0..M::COLUMNS.len())
                    .try_for_each(|column| row.bind(column, &mut arguments))
                    .map_err(::sqlx::Error::Encode)?;
            }
            let statement = self.insert_statement(piece.len());
            // Statements for several rows would fill the cache of prepared statements, one for each number of rows.
            inserted += DB::execute(tx, statement, arguments, piece.len() == 1).await?;
        }
        Ok(inserted)
    }

    async fn update(
        &self,
        tx: &mut ::sqlx::Transaction<'static, DB>,
        rows: &[M],
    ) -> Result<u64, ::sqlx::Error> {
        let changed = (0..M::COLUMNS.len()).filter(|column| ![M::ID, M::VERSION].contains(column));
        let columns: Vec<usize> = changed.chain([M::ID, M::VERSION]).collect();
        let mut updated = 0;
        for row in rows {
            let mut arguments = DB::Arguments::default();
            columns
                .iter()
                .try_for_each(|column| row.bind(*column, &mut arguments))
                .map_err(::sqlx::Error::Encode)?;
            match DB::execute(tx, self.statements.update.clone(), arguments, true).await? {
                1 => updated += 1,
                0 => return Ok(updated),
                // More than staged, whatever the other rows are.
                several => return Ok(rows.len() as u64 + several),
            }
        }
        Ok(updated)
    }
}

impl<M, DB: ::sqlx::Database> Clone for SqlxRepository<M, DB> {
    fn clone(&self) -> Self {
        Self { pools: self.pools.clone(), statements: self.statements.clone(), entity: PhantomData }
    }
}

impl<M, DB: ::sqlx::Database> fmt::Debug for SqlxRepository<M, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlxRepository").field("find", &self.statements.find).finish_non_exhaustive()
    }
}

/// Used by the code that the derives generate: the columns of an entity with sqlx.
#[doc(hidden)]
#[macro_export]
macro_rules! __sqlx_row {
    ($entity:ident { $($place:literal $field:ident: $type:ty),+ $(,)? }) => {
        #[automatically_derived]
        impl<PostriderDb> $crate::action::SqlxRow<PostriderDb> for $entity
        where
            PostriderDb: $crate::__private::sqlx::Database,
            usize: $crate::__private::sqlx::ColumnIndex<PostriderDb::Row>,
            $($type: for<'postrider> $crate::__private::sqlx::Encode<'postrider, PostriderDb>
                + for<'postrider> $crate::__private::sqlx::Decode<'postrider, PostriderDb>
                + $crate::__private::sqlx::Type<PostriderDb>,)+
        {
            fn bind(
                &self,
                column: usize,
                arguments: &mut PostriderDb::Arguments,
            ) -> ::core::result::Result<(), $crate::__private::sqlx::error::BoxDynError> {
                match column {
                    $($place => $crate::__private::sqlx::Arguments::add(arguments, &self.$field),)+
                    _ => ::core::result::Result::Ok(()),
                }
            }

            fn bind_id(
                id: &Self::Id,
                arguments: &mut PostriderDb::Arguments,
            ) -> ::core::result::Result<(), $crate::__private::sqlx::error::BoxDynError> {
                $crate::__private::sqlx::Arguments::add(arguments, id)
            }

            fn read(
                row: &PostriderDb::Row,
            ) -> ::core::result::Result<Self, $crate::__private::sqlx::Error> {
                ::core::result::Result::Ok(Self {
                    $($field: $crate::__private::sqlx::Row::try_get(row, $place as usize)?,)+
                })
            }
        }
    };
}

//! Writing in a SeaORM transaction on PostgreSQL, MySQL, MariaDB or SQLite; returns a future.

use ::sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult, RuntimeErr, Statement,
    TransactionTrait, TryGetable, Value,
};
use uuid::Uuid;

use super::columns::{self, Columns, consecutive, pieces};
use super::mysql_driver::{self, InsertConnection};
use super::rows_postgres::RowColumns;
use super::{Batch, Step, Written, mysql, postgres, rows, rows_sqlite, sqlite, step};
use crate::inbox::statements::{SqlFamily, StepConnection};
use crate::layout::RowTable;
use crate::{Code, Error, Ident, Result, mysql_error, postgres_error, sqlite_error};

impl_async_transaction!('c, insert, run_step: &'c DatabaseTransaction);

/// SeaORM's nested transaction is a savepoint that is rolled back when the future is dropped.
async fn insert(tx: &DatabaseTransaction, batch: &Batch) -> Result<Vec<Written>> {
    if let Some(table) = batch.row_table() {
        return insert_into_layout(tx, table, batch).await;
    }
    let rows = Columns::of(batch)?;
    let pieces = pieces(&rows);
    if let [all] = pieces.as_slice() {
        return insert_piece(tx, batch.schema(), all).await;
    }
    let failed = |failure| error(tx.get_database_backend(), failure);
    let savepoint = tx.begin().await.map_err(failed)?;
    let mut written = Vec::with_capacity(rows.len());
    for piece in pieces {
        match insert_piece(&savepoint, batch.schema(), piece).await {
            Ok(more) => written.extend(more),
            Err(error) => return savepoint.rollback().await.map_err(failed).and(Err(error)),
        }
    }
    savepoint.commit().await.map_err(failed)?;
    Ok(written)
}

async fn insert_piece(
    tx: &DatabaseTransaction,
    schema: &Ident,
    rows: &[Columns<'_>],
) -> Result<Vec<Written>> {
    let backend = tx.get_database_backend();
    let statement = match backend {
        DbBackend::Postgres => postgres::statement(schema, rows.len()),
        DbBackend::MySql => mysql::statement(schema, rows.len()),
        DbBackend::Sqlite => sqlite::statement(rows.len()),
        other => return Err(no_tables(other)),
    };
    let values = rows.iter().flat_map(Columns::values).map(|of| value(backend, of));
    let statement = Statement::from_sql_and_values(backend, statement, values);
    let failed = |failure| error(backend, failure);
    if backend == DbBackend::Postgres {
        let answer = tx.query_all_raw(statement).await.map_err(failed)?;
        let reported = answer.iter().map(reported).collect::<Result<_, DbErr>>().map_err(failed)?;
        let ids: Vec<Uuid> = rows.iter().map(|row| row.event.id).collect();
        return postgres::written(&ids, reported);
    }
    let done: ExecResult = tx.execute_raw(statement).await.map_err(failed)?;
    // MySQL returns the first position, SQLite the last.
    let before = if backend == DbBackend::Sqlite { rows.len() as u64 - 1 } else { 0 };
    consecutive(done.last_insert_id().saturating_sub(before), rows)
}

/// Inserts into a table of another layout.
async fn insert_into_layout(
    tx: &DatabaseTransaction,
    table: &RowTable,
    batch: &Batch,
) -> Result<Vec<Written>> {
    match tx.get_database_backend() {
        DbBackend::Postgres => {
            let columns = RowColumns::of(batch)?;
            let (statement, values) = columns.json_statement(table)?;
            columns.written(batch, pairs(tx, statement, values).await?)
        }
        DbBackend::MySql => mysql_driver::insert(&mut MySqlInsert(tx), batch).await,
        DbBackend::Sqlite => {
            let statement = rows_sqlite::statement(table)?;
            let failed = |failure| error(DbBackend::Sqlite, failure);
            let savepoint = tx.begin().await.map_err(failed)?;
            let mut reported = Vec::with_capacity(batch.events().len());
            for row in rows_sqlite::values(table, batch.events())? {
                match pairs::<i64, _>(&savepoint, statement.clone(), row.map(str::to_owned)).await {
                    Ok(pair) => reported.extend(pair),
                    Err(error) => return savepoint.rollback().await.map_err(failed).and(Err(error)),
                }
            }
            savepoint.commit().await.map_err(failed)?;
            rows::written(table, batch.events(), reported)
        }
        other => Err(no_tables(other)),
    }
}

/// The rows that a statement returns: a number, as this type, and another number.
async fn pairs<N: TryGetable, V: Into<Value>>(
    tx: &DatabaseTransaction,
    statement: String,
    values: impl IntoIterator<Item = V>,
) -> Result<Vec<(N, i64)>> {
    let backend = tx.get_database_backend();
    let statement = Statement::from_sql_and_values(backend, statement, values.into_iter().map(Into::into));
    let pair = |row: &QueryResult| Ok((row.try_get_by_index(0)?, row.try_get_by_index(1)?));
    let rows = tx.query_all_raw(statement).await;
    rows.and_then(|rows| rows.iter().map(pair).collect()).map_err(|failure| error(backend, failure))
}

/// Inserts rows of other layouts on MySQL and MariaDB.
struct MySqlInsert<'t>(&'t DatabaseTransaction);

impl InsertConnection for MySqlInsert<'_> {
    async fn execute(&mut self, statement: &'static str) -> Result<()> {
        self.0.execute_unprepared(statement).await.map(drop).map_err(|e| error(DbBackend::MySql, e))
    }

    async fn insert(&mut self, statement: String, rows: &[Columns<'_>]) -> Result<u64> {
        let values = rows.iter().flat_map(Columns::values).map(|of| value(DbBackend::MySql, of));
        self.run(statement, values).await
    }

    async fn insert_texts(&mut self, statement: String, values: Vec<Option<String>>) -> Result<u64> {
        self.run(statement, values.into_iter().map(Value::from)).await
    }

    async fn numbers(&mut self, statement: String) -> Result<Vec<(i64, i64)>> {
        pairs::<i64, Value>(self.0, statement, []).await
    }
}

impl MySqlInsert<'_> {
    async fn run(&mut self, statement: String, values: impl Iterator<Item = Value> + Send) -> Result<u64> {
        let statement = Statement::from_sql_and_values(DbBackend::MySql, statement, values);
        let done = self.0.execute_raw(statement).await.map_err(|e| error(DbBackend::MySql, e))?;
        Ok(done.last_insert_id())
    }
}

fn no_tables(backend: DbBackend) -> Error {
    Error::new(Code::StoreFailed, format!("this library has no tables for {backend:?}"))
}

async fn run_step(mut tx: &DatabaseTransaction, step: &Step) -> Result<u64> {
    step::run(&mut tx, step).await
}

impl StepConnection for &DatabaseTransaction {
    fn sql_family(&self) -> Result<SqlFamily> {
        match self.get_database_backend() {
            DbBackend::Postgres => Ok(SqlFamily::Postgres),
            DbBackend::MySql => Ok(SqlFamily::MySql),
            DbBackend::Sqlite => Ok(SqlFamily::Sqlite),
            other => Err(no_tables(other)),
        }
    }

    async fn execute(&mut self, statement: String, values: &[columns::Value<'_>]) -> Result<u64> {
        let backend = self.get_database_backend();
        let values = values.iter().map(|of| value(backend, *of));
        let statement = Statement::from_sql_and_values(backend, statement, values);
        match self.execute_raw(statement).await {
            Ok(done) => Ok(done.rows_affected()),
            Err(failure) => match mysql_answer(backend, &failure) {
                Some((number, message)) if mysql_error::is_duplicate(number, &message) => Ok(0),
                _ => Err(error(backend, failure)),
            },
        }
    }

    async fn numbers(&mut self, statement: String, values: &[columns::Value<'_>]) -> Result<Vec<i64>> {
        let backend = self.get_database_backend();
        let values = values.iter().map(|of| value(backend, *of));
        let statement = Statement::from_sql_and_values(backend, statement, values);
        let failed = |failure| error(backend, failure);
        let rows = self.query_all_raw(statement).await.map_err(failed)?;
        rows.iter().map(|row| row.try_get_by_index(0).map_err(failed)).collect()
    }
}

/// The id is read as text: SeaORM without `with-uuid` has no type for it.
fn reported(row: &QueryResult) -> Result<(Uuid, i64), DbErr> {
    let id: String = row.try_get_by_index(0)?;
    let id = Uuid::parse_str(&id).map_err(|e| DbErr::Type(e.to_string()))?;
    Ok((id, row.try_get_by_index(1)?))
}

fn value(backend: DbBackend, value: columns::Value<'_>) -> Value {
    match value {
        columns::Value::Id(id) if backend == DbBackend::MySql => id.as_bytes().to_vec().into(),
        columns::Value::Id(id) => id.to_string().into(),
        columns::Value::Text(text) => text.map(str::to_owned).into(),
        columns::Value::Bytes(bytes) => bytes.to_vec().into(),
        columns::Value::Number(number) => number.into(),
    }
}

pub(crate) fn error(backend: DbBackend, error: DbErr) -> Error {
    let code = answer_of(&error).and_then(|answer| answer.code()).map(|code| code.into_owned());
    match backend {
        DbBackend::Postgres => postgres_error::insert_failed(code.as_deref(), error),
        DbBackend::Sqlite => sqlite_error::insert_failed(code.and_then(|code| code.parse().ok()), error),
        _ => {
            let number = mysql_answer(backend, &error).map(|(number, _)| number);
            mysql_error::insert_failed(number, error)
        }
    }
}

fn answer_of(error: &DbErr) -> Option<&dyn ::sea_orm::sqlx::error::DatabaseError> {
    match error {
        DbErr::Conn(RuntimeErr::SqlxError(cause))
        | DbErr::Exec(RuntimeErr::SqlxError(cause))
        | DbErr::Query(RuntimeErr::SqlxError(cause)) => cause.as_database_error(),
        _ => None,
    }
}

/// The number and the text of a server's error. The code is the SQLSTATE, which is the same for many; the number is the
/// first word.
fn mysql_answer(backend: DbBackend, error: &DbErr) -> Option<(u16, String)> {
    let answer = answer_of(error).filter(|_| backend == DbBackend::MySql)?;
    let number = answer.to_string().split(' ').next()?.parse().ok()?;
    Some((number, answer.message().to_owned()))
}

//! Inserts a batch with a driver for MySQL and MariaDB: all events or none, in as many statements as it needs.

use std::future::Future;

use super::columns::{Columns, consecutive, pieces};
use super::mysql::statement;
use super::{Batch, Written, rows_mysql};
use crate::layout::RowTable;
use crate::{Code, Error, Event, Ident, Result};

/// Sent before a batch of several statements. Outside a transaction, a savepoint ends with its statement, so the second
/// statement fails before anything is written.
const SAVEPOINT: [&str; 2] = ["SAVEPOINT postrider_write", "ROLLBACK TO SAVEPOINT postrider_write"];
const RELEASE: &str = "RELEASE SAVEPOINT postrider_write";

/// The operations of a driver that [`insert`] needs.
pub(super) trait InsertConnection: Send {
    /// Runs a statement without values.
    fn execute(&mut self, statement: &'static str) -> impl Future<Output = Result<()>> + Send;

    /// Inserts the rows and returns the position of the first one.
    fn insert(&mut self, statement: String, rows: &[Columns<'_>])
    -> impl Future<Output = Result<u64>> + Send;

    /// Inserts rows of texts and returns the number of the first one, if the server assigns one.
    fn insert_texts(
        &mut self,
        statement: String,
        values: Vec<Option<String>>,
    ) -> impl Future<Output = Result<u64>> + Send;

    /// Runs a query that returns pairs of numbers, in the columns `number` and `created`.
    fn numbers(&mut self, statement: String) -> impl Future<Output = Result<Vec<(i64, i64)>>> + Send;
}

/// The rows of one statement.
enum Piece<'r, 'a> {
    Events(&'r [Columns<'a>]),
    /// Rows of another layout.
    Rows(&'r RowTable, &'r [Event]),
}

/// Inserts all rows or none: in one statement, which the server undoes if it fails, or in several after a savepoint.
/// If the future is dropped between two statements, the rows of the first ones stay in the transaction.
pub(super) async fn insert<D: InsertConnection>(driver: &mut D, batch: &Batch) -> Result<Vec<Written>> {
    let rows = if batch.row_table().is_some() { Vec::new() } else { Columns::of(batch)? };
    let pieces: Vec<Piece<'_, '_>> = match batch.row_table() {
        Some(table) => pieces(batch.events()).into_iter().map(|piece| Piece::Rows(table, piece)).collect(),
        None => pieces(&rows).into_iter().map(Piece::Events).collect(),
    };
    if let [all] = pieces.as_slice() {
        return insert_piece(driver, batch.schema(), all).await;
    }
    for statement in SAVEPOINT {
        driver.execute(statement).await.map_err(|error| match error.code() {
            Code::SchemaMissing => no_transaction(pieces.len()),
            _ => error,
        })?;
    }
    let mut written = Vec::with_capacity(batch.events().len());
    for piece in &pieces {
        match insert_piece(driver, batch.schema(), piece).await {
            Ok(more) => written.extend(more),
            Err(error) => {
                // Ignore an error here: after a deadlock the server has rolled back the whole transaction, including
                // the savepoint, and the caller needs the deadlock, not the missing savepoint.
                _ = driver.execute(SAVEPOINT[1]).await;
                return Err(error);
            }
        }
    }
    driver.execute(RELEASE).await?;
    Ok(written)
}

async fn insert_piece<D: InsertConnection>(
    driver: &mut D,
    schema: &Ident,
    piece: &Piece<'_, '_>,
) -> Result<Vec<Written>> {
    match piece {
        Piece::Events(rows) => {
            let first = driver.insert(statement(schema, rows.len()), rows).await?;
            consecutive(first, rows)
        }
        Piece::Rows(table, events) => rows_mysql::insert(driver, table, events).await,
    }
}

fn no_transaction(statements: usize) -> Error {
    let what = format!(
        "{statements} statements are needed for these events, but there is no transaction around them"
    );
    Error::new(Code::TooManyEvents, what).with_hint("begin a transaction, or write them in several calls")
}

#[cfg(all(test, feature = "mysql_async"))]
mod tests {
    use super::*;

    /// A server that detects a deadlock in the second statement and rolls the whole transaction back.
    #[derive(Default)]
    struct Deadlocked {
        inserts: u64,
        is_rolled_back: bool,
    }

    impl InsertConnection for Deadlocked {
        async fn execute(&mut self, _: &'static str) -> Result<()> {
            match self.is_rolled_back {
                true => Err(Error::new(Code::SchemaMissing, "SAVEPOINT postrider_write does not exist")),
                false => Ok(()),
            }
        }

        async fn insert(&mut self, _: String, _: &[Columns<'_>]) -> Result<u64> {
            self.inserts += 1;
            self.is_rolled_back = self.inserts == 2;
            match self.is_rolled_back {
                true => Err(Error::new(Code::StoreBusy, "deadlock")),
                false => Ok(1),
            }
        }

        async fn insert_texts(&mut self, _: String, _: Vec<Option<String>>) -> Result<u64> {
            Ok(0)
        }

        async fn numbers(&mut self, _: String) -> Result<Vec<(i64, i64)>> {
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn a_deadlock_between_two_statements_is_reported_as_a_deadlock() {
        let events = (0..1_500).map(|_| Event::new("a", "{}")).collect();
        let batch = Batch::checked(events, Ident::new("postrider").unwrap(), None);
        let mut driver = Deadlocked::default();
        let error = insert(&mut driver, &batch).await.unwrap_err();
        assert_eq!((driver.inserts, error.code()), (2, Code::StoreBusy));
    }
}

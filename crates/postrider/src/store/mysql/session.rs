//! One connection: its server, its statements, and its transactions.
//!
//! The driver cannot discard a partly read answer. If a caller stops waiting, because the future is dropped or the time
//! limit has passed, the connection is not used any more, and the server rolls back its open transaction.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error as SqlError, Params as SqlParams, Row, Value};
use uuid::Uuid;

use super::failure::{commit_failed, failed};
use super::row_state::Names;
use super::server::Server;
use crate::{Code, Error, Event, Ident, Outbox, Result, Written};

/// The time for an answer within a transaction: an operator's command may read all of a large outbox.
const LONG_ANSWER_WITHIN: Duration = Duration::from_secs(600);

/// Parameters of a statement, in the order of the question marks.
pub(super) type Params = Vec<Value>;

/// Values of several types as the parameters of a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => { vec![$(mysql_async::Value::from($value)),*] };
}
pub(super) use params;

/// Parameters by name: `:floor` in the text of a statement is the parameter `floor`.
pub(super) type NamedParams = Vec<(&'static str, Value)>;

/// Values of several types as parameters by name.
macro_rules! named {
    ($($name:literal => $value:expr),* $(,)?) => { vec![$(($name, mysql_async::Value::from($value))),*] };
}
pub(super) use named;

/// A connection to one server.
pub(in crate::store) struct Session {
    conn: Conn,
    schema: Ident,
    /// The table with a state per row, if that is the outbox.
    rows: Option<Names>,
    pub(super) server: Server,
    /// The name of the lock that shows others that this session exists.
    session_lock: String,
    answer_within: Duration,
    /// A statement was sent and its answer is not fully read, or a transaction is open.
    is_busy: bool,
    is_broken: bool,
}

/// Whether a statement or transaction writes: without an answer, the outcome of one that writes is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Reads,
    Writes,
}

/// Whether to keep a prepared statement for the next use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prepared {
    /// The text is the same every time.
    Kept,
    /// The text contains numbers that differ every time.
    Once,
}

impl Session {
    pub(super) fn new(conn: Conn, server: Server, schema: Ident, answer_within: Duration) -> Self {
        let session_lock = format!("postrider {}", Uuid::now_v7());
        Self {
            conn,
            schema,
            rows: None,
            server,
            session_lock,
            answer_within,
            is_busy: false,
            is_broken: false,
        }
    }

    /// Sets the table that statements use from now on.
    pub(super) fn set_rows(&mut self, rows: Names) {
        self.rows = Some(rows);
    }

    /// A statement with the names inserted.
    fn text(&self, statement: &str) -> String {
        let of_rows = self.rows.as_ref().map(|rows| rows.put_into(statement));
        self.schema.put_into_mysql(of_rows.as_deref().unwrap_or(statement))
    }

    /// Whether the connection can still be used.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_busy && !self.is_broken && !self.conn.is_disconnected()
    }

    /// The database with the outbox.
    pub(super) fn schema(&self) -> &Ident {
        &self.schema
    }

    /// Another server has answered: marks the connection as unusable and returns the error for the caller.
    pub(super) fn give_up(&mut self) -> Error {
        self.is_broken = true;
        Error::new(Code::StoreFailed, "the server behind the connection was replaced")
            .with_hint("nothing to do: the subscription is loaded again")
    }

    /// Runs one statement as a transaction.
    pub(super) async fn autocommit(
        &mut self,
        access: Access,
        statement: &str,
        params: impl Into<SqlParams>,
    ) -> Result<Vec<Row>> {
        self.is_busy = true;
        let rows = self.ask(self.answer_within, access, statement, params.into()).await;
        self.is_busy = false;
        rows
    }

    /// The same. Returns how many rows matched, changed or not.
    pub(super) async fn autocommit_changes(
        &mut self,
        statement: &str,
        params: impl Into<SqlParams>,
    ) -> Result<u64> {
        self.autocommit(Access::Writes, statement, params).await?;
        Ok(self.conn.affected_rows())
    }

    /// Runs one statement that reads, as a transaction, and passes every row to `take` as it arrives: rows are
    /// processed while the server prepares the next ones. After an error of `take`, the remaining rows are read and
    /// discarded.
    ///
    /// The statement is prepared: then values are sent in binary form. Sent as text, they cost the server twice as
    /// much.
    pub(super) async fn each(
        &mut self,
        prepared: Prepared,
        statement: &str,
        params: Params,
        take: &mut (dyn FnMut(Row) -> Result<()> + Send),
    ) -> Result<()> {
        self.is_busy = true;
        let text = self.text(statement);
        let mut taken = Ok(());
        let answer = async {
            let statement = self.conn.prep(text).await?;
            let mut result = self.conn.exec_iter(&statement, params).await?;
            result
                .for_each(|row| {
                    if taken.is_ok() {
                        taken = take(row);
                    }
                })
                .await?;
            result.drop_result().await?;
            if prepared == Prepared::Once {
                self.conn.close(statement).await?;
            }
            Ok(())
        };
        let answer = tokio::time::timeout(self.answer_within, answer).await;
        let answer = self.in_time(self.answer_within, Access::Reads, answer);
        self.is_busy = false;
        answer.and(taken)
    }

    /// Sends several statements without parameters at once, and reads all answers. The server runs them to the end even
    /// if the caller stops waiting. After an error, the statements that follow are not run.
    pub(super) async fn several(&mut self, access: Access, statements: &str) -> Result<Vec<Vec<Row>>> {
        self.is_busy = true;
        let text = self.text(statements);
        let answers = async {
            let mut result = self.conn.query_iter(text).await?;
            let mut all = Vec::new();
            while !result.is_empty() {
                all.push(result.collect::<Row>().await?);
            }
            // The error of a statement without rows looks like the end of the results; this call returns it.
            result.drop_result().await?;
            Ok(all)
        };
        let answers = tokio::time::timeout(self.answer_within, answers).await;
        let answers = self.in_time(self.answer_within, access, answers);
        self.is_busy = false;
        answers
    }

    /// Begins a transaction that writes. Each of its statements sees what is committed by then.
    pub(super) async fn begin(&mut self) -> Result<Tx<'_>> {
        self.begin_as("START TRANSACTION READ WRITE").await
    }

    /// Begins a transaction that sees one snapshot and writes nothing.
    pub(super) async fn begin_read(&mut self) -> Result<Tx<'_>> {
        self.begin_as(
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
             START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        )
        .await
    }

    async fn begin_as(&mut self, statements: &str) -> Result<Tx<'_>> {
        self.several(Access::Reads, statements).await?;
        self.is_busy = true;
        Ok(Tx { session: self })
    }

    async fn ask(
        &mut self,
        within: Duration,
        access: Access,
        statement: &str,
        params: SqlParams,
    ) -> Result<Vec<Row>> {
        let text = self.text(statement);
        let has_params = match &params {
            SqlParams::Empty => false,
            SqlParams::Positional(values) => !values.is_empty(),
            SqlParams::Named(_) => true,
        };
        // Statements without parameters are not prepared: it is not worth it, and some cannot be.
        let answer = async {
            if has_params { self.conn.exec(text, params).await } else { self.conn.query(text).await }
        };
        let answer = tokio::time::timeout(within, answer).await;
        self.in_time(within, access, answer)
    }

    /// Converts an answer that may have timed out, and marks the connection as unusable if it must be.
    fn in_time<T>(
        &mut self,
        within: Duration,
        access: Access,
        answer: Result<Result<T, SqlError>, tokio::time::error::Elapsed>,
    ) -> Result<T> {
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                self.is_broken |= error.is_fatal();
                Err(if access == Access::Writes { commit_failed(error) } else { failed(error) })
            }
            Err(_) => {
                self.is_broken = true;
                let code = if access == Access::Writes { Code::OutcomeUnknown } else { Code::StoreFailed };
                Err(Error::new(code, format!("the database has not answered within {within:?}"))
                    .with_hint("nothing to do: the relay reconnects and loads the subscription again"))
            }
        }
    }
}

/// A transaction of several statements. If it is dropped before [`finish`](Self::finish), the connection is not used
/// any more.
pub(super) struct Tx<'a> {
    session: &'a mut Session,
}

impl Tx<'_> {
    pub(super) async fn query(&mut self, statement: &str, params: impl Into<SqlParams>) -> Result<Vec<Row>> {
        self.session.ask(LONG_ANSWER_WITHIN, Access::Reads, statement, params.into()).await
    }

    /// The first row, if there is one.
    pub(super) async fn query_opt(&mut self, statement: &str, params: Params) -> Result<Option<Row>> {
        Ok(self.query(statement, params).await?.into_iter().next())
    }

    /// How many rows matched, changed or not.
    pub(super) async fn execute(&mut self, statement: &str, params: impl Into<SqlParams>) -> Result<u64> {
        self.query(statement, params).await?;
        Ok(self.session.conn.affected_rows())
    }

    /// Writes events in this transaction. After an error the connection is not used any more.
    pub(super) async fn write(&mut self, to: &Outbox, events: Vec<Event>) -> Result<Vec<Written>> {
        let session = &mut *self.session;
        let written = tokio::time::timeout(LONG_ANSWER_WITHIN, to.write_all(&mut session.conn, events)).await;
        let written = written.unwrap_or_else(|_| {
            Err(Error::new(Code::StoreFailed, "the database has not answered a writer in time"))
        });
        session.is_broken |= written.is_err();
        written
    }

    pub(super) fn server(&self) -> &Server {
        &self.session.server
    }

    pub(super) fn schema(&self) -> &Ident {
        &self.session.schema
    }

    /// The name of the lock with which the session shows that it exists.
    pub(super) fn session_lock(&self) -> &str {
        &self.session.session_lock
    }

    /// Commits if the result is a success, else rolls back.
    pub(super) async fn finish<T>(self, result: Result<T>) -> Result<T> {
        let (access, last) = match &result {
            Ok(_) => (Access::Writes, "COMMIT"),
            Err(_) => (Access::Reads, "ROLLBACK"),
        };
        let ended = self.session.ask(self.session.answer_within, access, last, SqlParams::Empty).await;
        match (result, ended) {
            (Ok(answer), Ok(_)) => {
                self.session.is_busy = false;
                Ok(answer)
            }
            (Err(error), ended) => {
                self.session.is_busy = ended.is_err();
                Err(error)
            }
            (Ok(_), Err(error)) => Err(error),
        }
    }
}

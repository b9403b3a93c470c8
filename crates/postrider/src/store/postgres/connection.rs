//! The shared [connection](crate::store::connection) on PostgreSQL.

use tokio_postgres::Row;

use super::connect::PostgresConfig;
use super::history::Incarnation;
use super::session::{Access, Session, Sharing, Tx};
use super::statement::Params;
use crate::store::connection::{self, Connect, ServerSession};
use crate::{Error, Result};

pub(super) type SharedConnection = connection::SharedConnection<PostgresConfig>;
pub(super) type Guard<'a> = connection::Guard<'a, PostgresConfig>;

impl Connect for PostgresConfig {
    type Session = Session;

    async fn connect(&self) -> Result<Session> {
        Self::connect(self).await
    }
}

impl ServerSession for Session {
    type Server = Incarnation;

    fn server(&self) -> Incarnation {
        self.incarnation.clone()
    }

    fn is_usable(&self) -> bool {
        Self::is_usable(self)
    }

    fn give_up(&mut self) -> Error {
        Self::give_up(self)
    }
}

impl Guard<'_> {
    /// Whether other clients may use the same server process.
    pub(super) fn sharing(&mut self) -> Result<Sharing> {
        Ok(self.session()?.sharing)
    }

    /// Runs one statement as a transaction: when the answer arrives, it is committed.
    pub(super) async fn query(&mut self, statement: &'static str, params: Params<'_>) -> Result<Vec<Row>> {
        self.session()?.autocommit(Access::Writes, statement, params).await
    }

    /// Runs one statement that changes nothing.
    pub(super) async fn read(&mut self, statement: &'static str, params: Params<'_>) -> Result<Vec<Row>> {
        self.session()?.autocommit(Access::Reads, statement, params).await
    }

    /// Begins a transaction that sees one snapshot and writes nothing.
    pub(super) async fn begin_read(&mut self) -> Result<Tx<'_>> {
        self.session()?.begin(Access::Reads).await
    }

    /// Begins a transaction. It is rolled back if it is dropped without a commit.
    pub(super) async fn begin(&mut self) -> Result<Tx<'_>> {
        self.session()?.begin(Access::Writes).await
    }
}

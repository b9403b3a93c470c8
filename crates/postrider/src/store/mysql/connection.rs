//! The shared [connection](crate::store::connection) on MySQL and MariaDB.

use super::connect::MySqlConfig;
use super::session::{Session, Tx};
use crate::store::connection::{self, Connect, ServerSession};
use crate::{Error, Result};

pub(super) type SharedConnection = connection::SharedConnection<MySqlConfig>;
pub(super) type Guard<'a> = connection::Guard<'a, MySqlConfig>;

impl Connect for MySqlConfig {
    type Session = Session;

    async fn connect(&self) -> Result<Session> {
        Self::connect(self).await
    }
}

impl ServerSession for Session {
    type Server = String;

    fn server(&self) -> String {
        self.server.history.clone()
    }

    fn is_usable(&self) -> bool {
        Self::is_usable(self)
    }

    fn give_up(&mut self) -> Error {
        Self::give_up(self)
    }
}

impl Guard<'_> {
    /// Begins a transaction that sees one snapshot and writes nothing.
    pub(super) async fn begin_read(&mut self) -> Result<Tx<'_>> {
        self.session()?.begin_read().await
    }

    /// Begins a transaction. If it is dropped before [`Tx::finish`], the connection is not used any more.
    pub(super) async fn begin(&mut self) -> Result<Tx<'_>> {
        self.session()?.begin().await
    }
}

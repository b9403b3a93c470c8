//! The connections of one outbox to a server: one per [`Role`], and the leases that were taken over them.

use std::ops::{Deref, DerefMut};

use super::dialect::{LeaseMemory, Role};
use crate::Result;
use crate::store::connection::{Connect, Guard, SharedConnection};

/// One connection per role. Each is opened when it is first used.
pub(in crate::store) struct RowConnections<C: Connect> {
    settler: SharedConnection<C>,
    reader: SharedConnection<C>,
    claimer: SharedConnection<C>,
    cleaner: SharedConnection<C>,
    searcher: SharedConnection<C>,
}

impl<C: Connect> RowConnections<C> {
    pub(in crate::store) fn new(config: &C) -> Self {
        let connection = || SharedConnection::new(config.clone());
        Self {
            settler: connection(),
            reader: connection(),
            claimer: connection(),
            cleaner: connection(),
            searcher: connection(),
        }
    }

    /// Waits for the connection of a role.
    pub(in crate::store) async fn lock(&self, role: Role) -> Result<RowGuard<'_, C>> {
        let connection = match role {
            Role::Settler => &self.settler,
            Role::Claimer => &self.claimer,
            Role::Reader => &self.reader,
            Role::Cleaner => &self.cleaner,
            Role::Searcher => &self.searcher,
        };
        connection.lock().await.map(|guard| self.guard(guard))
    }

    /// Exclusive use of a connection that belongs to the same outbox.
    pub(in crate::store) fn guard<'a>(&'a self, guard: Guard<'a, C>) -> RowGuard<'a, C> {
        RowGuard { guard, settler: &self.settler }
    }

    pub(in crate::store) async fn close(&self) {
        let Self { settler, reader, claimer, cleaner, searcher } = self;
        let all = [settler, reader, claimer, cleaner, searcher].map(SharedConnection::close);
        futures_util::future::join_all(all).await;
    }
}

/// Exclusive use of one connection, until it is dropped.
pub(in crate::store) struct RowGuard<'a, C: Connect> {
    guard: Guard<'a, C>,
    /// Leases are taken over this connection.
    settler: &'a SharedConnection<C>,
}

impl<'a, C: Connect> Deref for RowGuard<'a, C> {
    type Target = Guard<'a, C>;

    fn deref(&self) -> &Self::Target {
        &self.guard
    }
}

impl<C: Connect> DerefMut for RowGuard<'_, C> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.guard
    }
}

impl<C: Connect> LeaseMemory for RowGuard<'_, C> {
    fn check_server(&mut self) -> Result<()> {
        let here = self.guard.server()?;
        if self.settler.server().is_some_and(|server| server != here) {
            return Err(self.guard.give_up());
        }
        Ok(())
    }

    fn remember_lease(&mut self, subscription: &str) -> Result<()> {
        self.guard.remember_lease(subscription)
    }

    fn check_lease(&mut self, subscription: &str) -> Result<()> {
        self.guard.check_lease(subscription)
    }

    fn took_lease_here(&mut self, subscription: &str) -> Result<bool> {
        Ok(self.guard.lease_taken_on(subscription) == Some(self.guard.server()?))
    }
}

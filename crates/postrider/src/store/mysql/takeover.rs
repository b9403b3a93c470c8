//! The queries for taking a lease on MySQL and MariaDB; see [`takeover`](crate::store::takeover).

use super::admin;
use super::session::{Tx, params};
use crate::Result;
use crate::ledger::Progress;
use crate::store::Origin;
use crate::store::takeover::TakeoverTx;

impl TakeoverTx for Tx<'_> {
    const HISTORY: &'static str = "the server";

    fn origin(&self) -> Origin {
        self.server().origin()
    }

    /// Two of these servers share no identifier that proves a common history. Only the events can prove it, so there
    /// must be a highest event seen.
    fn may_succeed(_: &str, _: &str, progress: &Progress) -> bool {
        progress.highest.is_some()
    }

    async fn set_history(&mut self, name: &str, history: &str) -> Result<()> {
        // Index: the primary key (name).
        let sql = "UPDATE {schema}.subscriptions SET history = ? WHERE name = ?";
        self.execute(sql, params![history, name]).await.map(|_| ())
    }

    async fn set_halted(&mut self, name: &str, reason: &str) -> Result<()> {
        admin::set_halted(self, name, reason).await
    }
}

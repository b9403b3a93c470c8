//! The queries for taking a lease on MySQL and MariaDB; see [`takeover`](crate::store::takeover).

use super::session::{Tx, params};
use super::{admin, lease, progress};
use crate::Result;
use crate::ledger::Progress;
use crate::store::lease_tx::LeaseTx;
use crate::store::subscription::SubscriptionRow;
use crate::store::takeover::TakeoverTx;
use crate::store::{Acquired, Epoch, LeaseRequest, Origin};

impl LeaseTx for Tx<'_> {
    type Row = SubscriptionRow;

    async fn refusal(&mut self, lease: &LeaseRequest) -> Result<Option<Acquired>> {
        lease::refusal(self, lease).await
    }

    async fn lock(&mut self, name: &str) -> Result<Option<SubscriptionRow>> {
        progress::lock(self, name).await
    }

    async fn take(&mut self, lease: &LeaseRequest, epoch: Epoch) -> Result<()> {
        lease::take(self, lease, epoch).await
    }
}

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

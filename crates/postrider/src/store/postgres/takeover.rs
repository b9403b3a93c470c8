//! The queries for taking a lease on PostgreSQL; see [`takeover`](crate::store::takeover).

use super::admin;
use super::begin::LOCK;
use super::history;
use super::row::get;
use super::session::Tx;
use super::shape::{self, SHAPE};
use crate::ledger::Progress;
use crate::store::connection::Reached;
use crate::store::subscription::SubscriptionRow;
use crate::store::takeover::TakeoverTx;
use crate::store::{Epoch, Origin};
use crate::{Position, Result};

impl TakeoverTx for Tx<'_> {
    const HISTORY: &'static str = "the cluster and timeline";

    fn origin(&self) -> Origin {
        self.server().origin()
    }

    fn may_succeed(known: &str, now: &str, _: &Progress) -> bool {
        is_later(known, now)
    }

    async fn owner_reached(&mut self, name: &str) -> Result<Option<Reached>> {
        // Index: the primary key (name).
        let sql = "SELECT epoch, floor FROM {schema}.subscriptions WHERE name = $1";
        let Some(row) = self.query_opt(sql, &[&name]).await? else { return Ok(None) };
        Ok(Some(Reached { epoch: Epoch(get(&row, 0)?), floor: Position::new(get(&row, 1)?) }))
    }

    async fn check_events(&mut self) -> Result<()> {
        shape::check(&self.query(SHAPE, &[]).await?)?;
        self.execute(LOCK, &[]).await.map(|_| ())
    }

    async fn positions_reused(&mut self, row: &SubscriptionRow) -> Result<Option<String>> {
        history::positions_reused(self, &row.progress.done, row.seen_tx.as_deref()).await
    }

    async fn set_history(&mut self, name: &str, history: &str) -> Result<()> {
        // Index: the primary key (name).
        let sql = "UPDATE {schema}.subscriptions SET history = $2 WHERE name = $1";
        self.execute(sql, &[&name, &history]).await.map(|_| ())
    }

    async fn set_halted(&mut self, name: &str, reason: &str) -> Result<()> {
        admin::set_halted(self, name, reason).await
    }
}

/// Whether a history is a later timeline of the same cluster. Both are `CLUSTER/TIMELINE`, the timeline in
/// hexadecimal of a fixed length. Progress about a later timeline than the server's cannot have come with it.
fn is_later(known: &str, now: &str) -> bool {
    match (known.rsplit_once('/'), now.rsplit_once('/')) {
        (Some((cluster, before)), Some((same, after))) => {
            cluster == same && before.len() == after.len() && before < after
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_later_timeline_of_the_same_cluster_is_a_failover() {
        assert!(is_later("71/00000001", "71/00000002") && is_later("71/00000009", "71/0000000A"));
        for (known, now) in [
            ("71/00000002", "71/00000001"),
            ("71/00000001", "72/00000002"),
            ("71/00000001", "71/00000001"),
            ("71", "71/00000002"),
            ("71/1", "71/00000002"),
        ] {
            assert!(!is_later(known, now), "{known} {now}");
        }
    }
}

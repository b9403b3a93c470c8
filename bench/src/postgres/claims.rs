//! What a claim reads in the database.

use postrider::Position;
use postrider::ledger::{Intervals, LastSeen, Progress};
use postrider::store::{Budget, Store};

use super::Fixture;
use crate::Error;

/// Counted by the server over several claims, for the table of events and its index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimCost {
    claims: u32,
    pages: i64,
    index_scans: i64,
    pub(crate) table_scans: i64,
}

impl ClaimCost {
    pub(crate) fn pages_per_claim(&self) -> f64 {
        self.pages as f64 / f64::from(self.claims)
    }

    pub(crate) fn index_scans_per_claim(&self) -> f64 {
        self.index_scans as f64 / f64::from(self.claims)
    }
}

impl Fixture {
    /// Claims events after a position this many times, with one claimer.
    pub(crate) async fn claim_cost(&self, after: u64, claims: u32) -> Result<ClaimCost, Error> {
        let position = Position::new(i64::try_from(after)?);
        let sql = self.sql("SELECT id FROM {schema}.events WHERE position = $1");
        let id = self.client.query_one(&sql, &[&position.get()]).await?.try_get(0)?;
        let highest = Some(LastSeen { position, id });
        let progress = Progress { done: Intervals::up_to(position), highest, trial: None };
        let store = self.store().await?;
        let before = self.counted().await?;
        let mut claimer = store.claimer(&progress);
        for _ in 0..claims {
            claimer.claim(Budget::new(1_000, 1 << 24)).await?;
        }
        drop(claimer);
        store.close().await;
        let after = self.counted().await?;
        let [pages, index_scans, table_scans] = [0, 1, 2].map(|index| after[index] - before[index]);
        Ok(ClaimCost { claims, pages, index_scans, table_scans })
    }

    /// Pages read, index scans and table scans so far.
    async fn counted(&self) -> Result<[i64; 3], Error> {
        super::cost::relays_gone(&self.client).await?;
        super::cost::report(&self.client).await?;
        let sql = "SELECT heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit, idx_scan, seq_scan
                   FROM pg_statio_all_tables JOIN pg_stat_all_tables USING (relid)
                   WHERE pg_stat_all_tables.schemaname = $1 AND pg_stat_all_tables.relname = 'events'";
        let row = self.client.query_one(sql, &[&self.schema.as_str()]).await?;
        Ok([row.try_get(0)?, row.try_get(1)?, row.try_get(2)?])
    }
}

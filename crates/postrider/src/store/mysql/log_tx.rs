//! The queries of a transaction on MySQL and MariaDB; see [`log_tx`](crate::store::log_tx).

use super::history;
use super::ranges::{listed, within};
use super::row::{self, get, get_opt, micros};
use super::session::{Params, Tx, params};
use super::writers::decided_up_to;
use super::{lease, open_transactions, park, progress, relays};
use crate::ledger::{Intervals, LastSeen, ParkedRow};
use crate::store::log_tx::{LogTx, VisibleStep, visible_intervals};
use crate::store::subscription::SubscriptionRow;
use crate::store::{LeaseOverview, PurgeBound, RelayOverview};
use crate::{Position, Result, Timestamp};

/// The lock of retention: on the row of the first migration. A process that deletes events, or creates or moves a
/// subscription, holds it: so no subscription begins at an event that is being deleted. Index: the primary key
/// (version).
macro_rules! retention_lock {
    ($kind:literal) => {
        concat!("SELECT version FROM {schema}.migrations WHERE version = 1 ", $kind)
    };
}

/// The database's clock.
pub(super) async fn clock(tx: &mut Tx<'_>) -> Result<Timestamp> {
    let row = tx.query_opt(concat!("SELECT ", micros!("UTC_TIMESTAMP(6)")), Params::new()).await?;
    // Without an answer, the earliest time makes no event old enough to delete.
    row.map_or(Ok(Timestamp::from_micros(i64::MIN)), |row| row::time(&row, 0))
}

impl LogTx for Tx<'_> {
    /// Also keeps subscriptions from being created or moved.
    async fn keep_events(&mut self) -> Result<()> {
        self.query(retention_lock!("FOR UPDATE"), Params::new()).await.map(drop)
    }

    async fn clock(&mut self) -> Result<Timestamp> {
        clock(self).await
    }

    async fn last_position(&mut self) -> Result<Position> {
        history::last_position(self).await
    }

    /// Not the counter: after a crash of the server it may be set back to the last event.
    async fn end(&mut self) -> Result<Position> {
        history::last_row(self).await
    }

    async fn visible(&mut self, until: Option<Timestamp>) -> Result<Intervals> {
        // Must be read before the snapshot: only then does a position that the snapshot lacks stay empty.
        let decided = decided_up_to(self).await?;
        // Index: the primary key (position), all of it, once per subscription. One row per gap: the position before it
        // and the position after it. The last row has the last position, and up to where everything is decided.
        let sql = "WITH seen AS (
                       SELECT position FROM {schema}.events
                       WHERE position < COALESCE(
                           (SELECT MIN(position) FROM {schema}.events
                            WHERE time >= TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')), 9223372036854775807)
                   ), steps AS (
                       SELECT COALESCE(LAG(position) OVER (ORDER BY position), 0) AS before_it, position FROM seen
                   )
                   SELECT before_it, position, NULL FROM steps WHERE position <> before_it + 1
                   UNION ALL
                   SELECT COALESCE(MAX(position), 0), NULL,
                          LEAST(?, COALESCE(
                              (SELECT MIN(position) - 1 FROM {schema}.events
                               WHERE time >= TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')), 9223372036854775807))
                   FROM seen
                   ORDER BY 1";
        let until = until.map(Timestamp::as_micros);
        let rows = self.query(sql, params![until, decided.get(), until]).await?;
        visible_intervals(rows.iter().map(|row| {
            Ok(VisibleStep { before: get_opt(row, 0)?, after: get_opt(row, 1)?, decided: get_opt(row, 2)? })
        }))
    }

    async fn last_at_or_below(&mut self, position: Position) -> Result<Option<LastSeen>> {
        history::last_at_or_below(self, position).await
    }

    async fn time_of(&mut self, position: Position) -> Result<Option<Timestamp>> {
        // Index: the primary key (position).
        let sql = concat!("SELECT ", micros!("time"), " FROM {schema}.events WHERE position = ?");
        let row = self.query_opt(sql, params![position.get()]).await?;
        row.map(|row| row::time(&row, 0)).transpose()
    }

    async fn time_above(&mut self, position: Position) -> Result<Option<Timestamp>> {
        // Index: the primary key (position), one row.
        let sql = concat!(
            "SELECT ",
            micros!("time"),
            " FROM {schema}.events WHERE position > ? ORDER BY position LIMIT 1"
        );
        let row = self.query_opt(sql, params![position.get()]).await?;
        row.map(|row| row::time(&row, 0)).transpose()
    }

    async fn count_within(
        &mut self,
        ranges: Vec<(Position, Position)>,
        limit: u64,
    ) -> Result<(u64, Option<Position>)> {
        let ranges = within(ranges.into_iter().map(|(first, last)| (first.get(), last.get())));
        // Index: the primary key (position); one range each. No other column is read.
        let sql = format!(
            "SELECT COUNT(*), MIN(position)
             FROM (SELECT position FROM {{schema}}.events FORCE INDEX (PRIMARY)
                   WHERE {ranges}
                   ORDER BY position
                   LIMIT {limit}) AS counted"
        );
        let Some(row) = self.query_opt(&sql, Params::new()).await? else { return Ok((0, None)) };
        Ok((get::<i64>(&row, 0)?.unsigned_abs(), get_opt::<i64>(&row, 1)?.map(Position::new)))
    }

    async fn subscriptions(&mut self) -> Result<Vec<String>> {
        let sql = "SELECT name FROM {schema}.subscriptions ORDER BY name";
        self.query(sql, Params::new()).await?.iter().map(|row| get(row, 0)).collect()
    }

    async fn load(&mut self, name: &str) -> Result<Option<SubscriptionRow>> {
        progress::load(self, name).await
    }

    async fn parked(&mut self, name: &str) -> Result<Vec<ParkedRow>> {
        park::load(self, name).await
    }

    async fn parked_states(&mut self, name: &str, rows_max: u64) -> Result<Vec<(String, i64, i64)>> {
        park::states(self, name, rows_max).await
    }

    async fn parked_errors(&mut self, name: &str, rows_max: usize) -> Result<Vec<String>> {
        park::errors(self, name, rows_max).await
    }

    async fn parked_behind(&mut self, name: &str, rows_max: u64) -> Result<(u64, u64)> {
        park::behind(self, name, rows_max).await
    }

    async fn lease(&mut self, name: &str) -> Result<Option<LeaseOverview>> {
        lease::load(self, name).await
    }

    async fn relays(&mut self, name: &str) -> Result<Vec<RelayOverview>> {
        relays::load(self, name).await
    }

    async fn oldest_transaction(&mut self) -> Result<Option<Option<Timestamp>>> {
        open_transactions::oldest(self).await
    }

    async fn lock_retention(&mut self) -> Result<()> {
        self.query(retention_lock!("FOR UPDATE NOWAIT"), Params::new()).await.map(|_| ())
    }

    async fn purge_bounds(&mut self) -> Result<Vec<PurgeBound>> {
        let sql = "SELECT name, CASE WHEN halted IS NULL THEN floor ELSE 0 END, highest_position
                   FROM {schema}.subscriptions
                   ORDER BY name";
        self.query(sql, Params::new()).await?.iter().map(PurgeBound::read).collect()
    }

    async fn times_within(
        &mut self,
        after: Position,
        last: Position,
        events_max: usize,
    ) -> Result<Vec<(Position, Timestamp)>> {
        // Index: the primary key (position), one range.
        let sql = concat!(
            "SELECT position, ",
            micros!("time"),
            " FROM {schema}.events
              WHERE position > ? AND position <= ?
              ORDER BY position
              LIMIT ?"
        );
        let rows = self.query(sql, params![after.get(), last.get(), events_max]).await?;
        rows.iter().map(|row| Ok((row::position(row, 0)?, row::time(row, 1)?))).collect()
    }

    async fn parked_within(&mut self, after: Position, last: Position) -> Result<Vec<Position>> {
        // Index: the primary key (subscription, position), one range per subscription.
        let sql = "SELECT STRAIGHT_JOIN p.position
                   FROM {schema}.subscriptions AS s
                   JOIN {schema}.parked AS p
                     ON p.subscription = s.name AND p.position > ? AND p.position <= ?";
        let rows = self.query(sql, params![after.get(), last.get()]).await?;
        rows.iter().map(|row| row::position(row, 0)).collect()
    }

    async fn delete(&mut self, positions: &[Position]) -> Result<()> {
        // Index: the primary key (position).
        let positions = listed(positions.iter().copied());
        let sql = format!("DELETE FROM {{schema}}.events WHERE position IN ({positions})");
        self.execute(&sql, Params::new()).await.map(|_| ())
    }
}

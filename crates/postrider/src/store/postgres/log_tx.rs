//! The queries of a transaction on PostgreSQL; see [`log_tx`](crate::store::log_tx).

use super::begin::LOCK;
use super::history;
use super::row::{self, get};
use super::session::Tx;
use super::time::Time;
use super::writers::decided_up_to;
use super::{lease, open_transactions, park, progress, relays};
use crate::ledger::{Intervals, LastSeen, ParkedRow};
use crate::store::log_tx::{LogTx, VisibleStep, visible_intervals};
use crate::store::row_limit;
use crate::store::subscription::SubscriptionRow;
use crate::store::{LeaseOverview, PurgeBound, RelayOverview};
use crate::{Code, Error, Position, Result, Timestamp};

/// The lock of retention. A process that deletes events, or creates or moves a subscription, holds it: so no
/// subscription begins at an event that is being deleted. The hash of our text differs from other users' lock numbers.
macro_rules! retention_lock {
    ($lock:literal) => {
        concat!("SELECT ", $lock, "(hashtextextended('postrider retention of {schema}', 0))")
    };
}

impl LogTx for Tx<'_> {
    /// Also keeps their table from being rewritten. Several transactions may do so at once.
    async fn keep_events(&mut self) -> Result<()> {
        self.query(retention_lock!("pg_advisory_xact_lock_shared"), &[]).await?;
        self.execute(LOCK, &[]).await.map(drop)
    }

    async fn clock(&mut self) -> Result<Timestamp> {
        let row = self.query_opt("SELECT clock_timestamp()", &[]).await?;
        // Without an answer, the earliest time makes no event old enough to delete.
        row.map_or(Ok(Timestamp::from_micros(i64::MIN)), |row| get::<Time>(&row, 0).map(|time| time.0))
    }

    async fn last_position(&mut self) -> Result<Position> {
        history::last_position(self).await
    }

    async fn visible(&mut self, until: Option<Timestamp>) -> Result<Intervals> {
        // Must be read before the snapshot: only then does a position that the snapshot lacks stay empty.
        let decided = decided_up_to(self).await?;
        // Index: the primary key (position), all of it, once per subscription. One row per gap: the position before it
        // and the position after it. The last row has the last position, and up to where everything is decided.
        let sql = "WITH first AS MATERIALIZED (
                       SELECT position FROM ONLY {schema}.events
                       WHERE $1::timestamptz IS NOT NULL AND time >= $1
                       ORDER BY position
                       LIMIT 1
                   ), seen AS NOT MATERIALIZED (
                       SELECT position FROM ONLY {schema}.events
                       WHERE position < coalesce((SELECT position FROM first), 9223372036854775807)
                   )
                   SELECT before, position, NULL::bigint
                   FROM (SELECT lag(position, 1, 0::bigint) OVER (ORDER BY position) AS before, position
                         FROM seen) AS steps
                   WHERE position <> before + 1
                   UNION ALL
                   SELECT max(position), NULL, least($2::bigint, (SELECT position - 1 FROM first)) FROM seen
                   ORDER BY 1";
        let rows = self.query(sql, &[&until.map(Time), &decided.get()]).await?;
        visible_intervals(
            rows.iter().map(|row| {
                Ok(VisibleStep { before: get(row, 0)?, after: get(row, 1)?, decided: get(row, 2)? })
            }),
        )
    }

    async fn last_at_or_below(&mut self, position: Position) -> Result<Option<LastSeen>> {
        history::last_at_or_below(self, position).await
    }

    async fn time_of(&mut self, position: Position) -> Result<Option<Timestamp>> {
        // Index: the primary key (position).
        let sql = "SELECT time FROM ONLY {schema}.events WHERE position = $1";
        let row = self.query_opt(sql, &[&position.get()]).await?;
        row.map(|row| get::<Time>(&row, 0).map(|time| time.0)).transpose()
    }

    async fn time_above(&mut self, position: Position) -> Result<Option<Timestamp>> {
        // Index: the primary key (position), one row.
        let sql =
            "SELECT time FROM ONLY {schema}.events WHERE position > $1::bigint ORDER BY position LIMIT 1";
        let row = self.query_opt(sql, &[&position.get()]).await?;
        row.map(|row| get::<Time>(&row, 0).map(|time| time.0)).transpose()
    }

    async fn count_within(
        &mut self,
        ranges: Vec<(Position, Position)>,
        limit: u64,
    ) -> Result<(u64, Option<Position>)> {
        // Index: the primary key (position); one range each. No other column is read.
        let sql = "SELECT count(*), min(position)
                   FROM (SELECT found.position
                         FROM unnest($1::bigint[], $2::bigint[]) AS gap (first, last)
                         CROSS JOIN LATERAL (
                             SELECT position FROM ONLY {schema}.events
                             WHERE position BETWEEN gap.first AND gap.last
                             ORDER BY position
                             LIMIT $3
                         ) AS found
                         ORDER BY found.position
                         LIMIT $3) AS counted";
        let (firsts, lasts): (Vec<i64>, Vec<i64>) =
            ranges.into_iter().map(|(first, last)| (first.get(), last.get())).unzip();
        let limit = row_limit(limit);
        let Some(row) = self.query_opt(sql, &[&firsts, &lasts, &limit]).await? else { return Ok((0, None)) };
        Ok((get::<i64>(&row, 0)?.unsigned_abs(), get::<Option<i64>>(&row, 1)?.map(Position::new)))
    }

    async fn subscriptions(&mut self) -> Result<Vec<String>> {
        let rows = self.query("SELECT name FROM {schema}.subscriptions ORDER BY name", &[]).await?;
        rows.iter().map(|row| get(row, 0)).collect()
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
        let row = self.query_opt(retention_lock!("pg_try_advisory_xact_lock"), &[]).await?;
        if row.map_or(Ok(false), |row| get(&row, 0))? {
            return Ok(());
        }
        Err(Error::new(Code::StoreBusy, "another process is deleting events or creating a subscription"))
    }

    async fn purge_bounds(&mut self) -> Result<Vec<PurgeBound>> {
        let sql = "SELECT name, CASE WHEN halted IS NULL THEN floor ELSE 0 END, highest_position
                   FROM {schema}.subscriptions
                   ORDER BY name";
        self.query(sql, &[]).await?.iter().map(PurgeBound::read).collect()
    }

    async fn times_within(
        &mut self,
        after: Position,
        last: Position,
        events_max: usize,
    ) -> Result<Vec<(Position, Timestamp)>> {
        // Index: the primary key (position), one range.
        let sql = "SELECT position, time
                   FROM ONLY {schema}.events
                   WHERE position > $1::bigint AND position <= $2::bigint
                   ORDER BY position
                   LIMIT $3::bigint";
        let limit = row_limit(events_max);
        let rows = self.query(sql, &[&after.get(), &last.get(), &limit]).await?;
        rows.iter().map(|row| Ok((row::position(row, 0)?, get::<Time>(row, 1)?.0))).collect()
    }

    async fn parked_within(&mut self, after: Position, last: Position) -> Result<Vec<Position>> {
        // Index: the primary key (subscription, position), one range per subscription.
        let sql = "SELECT p.position
                   FROM {schema}.subscriptions AS s
                   CROSS JOIN LATERAL (
                       SELECT position FROM {schema}.parked
                       WHERE subscription = s.name AND position > $1::bigint AND position <= $2::bigint
                   ) AS p";
        let rows = self.query(sql, &[&after.get(), &last.get()]).await?;
        rows.iter().map(|row| row::position(row, 0)).collect()
    }

    async fn delete(&mut self, positions: &[Position]) -> Result<()> {
        // Index: the primary key (position).
        let sql = "DELETE FROM ONLY {schema}.events WHERE position = ANY ($1::bigint[])";
        let positions: Vec<i64> = positions.iter().map(|position| position.get()).collect();
        self.execute(sql, &[&positions]).await.map(|_| ())
    }
}

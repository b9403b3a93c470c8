//! The queries of a transaction on a SQLite file; see [`log_tx`](crate::store::log_tx). None of them waits: they run on
//! the thread that owns the connection, and their futures are polled once.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::failure::Attempt;
use super::ledger::Ledger;
use super::worker::poll_once;
use super::{history, lease, park, progress, relays};
use crate::ledger::{Intervals, LastSeen, ParkedRow};
use crate::store::log_tx::{self, LogTx};
use crate::store::row_limit;
use crate::store::subscription::SubscriptionRow;
use crate::store::{LeaseOverview, Overview, Purge, PurgeBound, Purged, RelayOverview};
use crate::{Position, Result, Timestamp};

/// See [`Store::overview`](crate::store::Store::overview).
pub(super) fn overview(snapshot: &mut Connection, backlog_max: u64) -> Attempt<Overview> {
    poll_once(log_tx::overview(&mut SqliteTx(snapshot), backlog_max))
}

/// See [`Store::subscription_names`](crate::store::Store::subscription_names).
pub(super) fn subscriptions(snapshot: &mut Connection) -> Attempt<Vec<String>> {
    poll_once(SqliteTx(snapshot).subscriptions())
}

/// See [`Store::purge`](crate::store::Store::purge).
pub(super) fn purge(tx: &mut Connection, purge: &Purge) -> Attempt<Purged> {
    poll_once(log_tx::purge(&mut SqliteTx(tx), purge))
}

/// An open transaction. Borrows the connection mutably: then the transaction is `Send`, as its futures must be.
pub(super) struct SqliteTx<'a>(pub(super) &'a mut Connection);

impl SqliteTx<'_> {
    /// The values of the first row, if there is one.
    fn first<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Attempt<Option<T>> {
        Ok(self.0.prepare_cached(sql)?.query_row(params, read).optional()?)
    }

    /// The values of every row.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Attempt<Vec<T>> {
        Ok(self.0.prepare_cached(sql)?.query_map(params, read)?.collect::<rusqlite::Result<_>>()?)
    }
}

fn position(row: &Row<'_>) -> rusqlite::Result<Position> {
    row.get(0).map(Position::new)
}

fn time(row: &Row<'_>) -> rusqlite::Result<Timestamp> {
    row.get(0).map(Timestamp::from_micros)
}

impl LogTx for SqliteTx<'_> {
    async fn keep_events(&mut self) -> Result<()> {
        // A transaction that writes is the only one.
        Ok(())
    }

    async fn clock(&mut self) -> Result<Timestamp> {
        Ok(Timestamp::from_micros(lease::now(self.0)?))
    }

    async fn last_position(&mut self) -> Result<Position> {
        Ok(history::last_position(self.0)?)
    }

    /// There is one writer at a time: a missing position below the last one is empty.
    async fn visible(&mut self, until: Option<Timestamp>) -> Result<Intervals> {
        let end = history::last_position(self.0)?;
        let Some(until) = until else { return Ok(Intervals::up_to(end)) };
        // No index: a scan, once per subscription.
        let sql = "SELECT position FROM postrider_events WHERE time >= ?1 ORDER BY position LIMIT 1";
        let first = self.first(sql, [until.as_micros()], position)?;
        Ok(Intervals::up_to(first.map_or(end, |first| first.previous().min(end))))
    }

    async fn last_at_or_below(&mut self, position: Position) -> Result<Option<LastSeen>> {
        Ok(history::last_at_or_below(self.0, position)?)
    }

    async fn time_of(&mut self, position: Position) -> Result<Option<Timestamp>> {
        // Index: the primary key (position).
        let sql = "SELECT time FROM postrider_events WHERE position = ?1";
        Ok(self.first(sql, [position.get()], time)?)
    }

    async fn time_above(&mut self, position: Position) -> Result<Option<Timestamp>> {
        // Index: the primary key (position), one row.
        let sql = "SELECT time FROM postrider_events WHERE position > ?1 ORDER BY position LIMIT 1";
        Ok(self.first(sql, [position.get()], time)?)
    }

    async fn count_within(
        &mut self,
        ranges: Vec<(Position, Position)>,
        limit: u64,
    ) -> Result<(u64, Option<Position>)> {
        // Index: the primary key (position); one range each. No other column is read.
        let sql = "SELECT count(*), min(position)
                   FROM (SELECT position FROM postrider_events
                         WHERE position BETWEEN ?1 AND ?2 ORDER BY position LIMIT ?3)";
        let (mut events, mut first) = (0, None);
        for (start, end) in ranges {
            let left = row_limit(limit - events);
            let counted = self.first(sql, params![start.get(), end.get(), left], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?))
            })?;
            let (more, lowest) = counted.unwrap_or_default();
            events += more.unsigned_abs();
            first = first.or(lowest.map(Position::new));
            if events >= limit {
                break;
            }
        }
        Ok((events, first))
    }

    async fn subscriptions(&mut self) -> Result<Vec<String>> {
        let sql = "SELECT name FROM postrider_subscriptions ORDER BY name";
        Ok(self.all(sql, [], |row| row.get(0))?)
    }

    async fn load(&mut self, name: &str) -> Result<Option<SubscriptionRow>> {
        Ok(progress::load(self.0, Ledger::Log, name)?)
    }

    async fn parked(&mut self, name: &str) -> Result<Vec<ParkedRow>> {
        Ok(park::load(self.0, name)?)
    }

    async fn parked_states(&mut self, name: &str, rows_max: u64) -> Result<Vec<(String, i64, i64)>> {
        let values = rusqlite::params![name, row_limit(rows_max)];
        Ok(self.all(park::STATES, values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?)
    }

    async fn parked_errors(&mut self, name: &str, rows_max: usize) -> Result<Vec<String>> {
        Ok(self.all(park::ERRORS, rusqlite::params![name, row_limit(rows_max)], |row| row.get(0))?)
    }

    async fn parked_behind(&mut self, name: &str, rows_max: u64) -> Result<(u64, u64)> {
        let values = rusqlite::params![name, row_limit(rows_max)];
        let counts =
            self.all(park::BEHIND, values, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        let (dead, unrouted) = counts.first().copied().unwrap_or_default();
        Ok((dead.unsigned_abs(), unrouted.unsigned_abs()))
    }

    async fn lease(&mut self, name: &str) -> Result<Option<LeaseOverview>> {
        Ok(lease::load(self.0, Ledger::Log, name)?)
    }

    async fn relays(&mut self, name: &str) -> Result<Vec<RelayOverview>> {
        Ok(relays::load(self.0, Ledger::Log, name)?)
    }

    /// The transaction is the file's only writer from its beginning: no subscription is created, moved or settled
    /// meanwhile.
    async fn lock_retention(&mut self) -> Result<()> {
        Ok(())
    }

    async fn purge_bounds(&mut self) -> Result<Vec<PurgeBound>> {
        let sql = "SELECT name, CASE WHEN halted IS NULL THEN floor ELSE 0 END, highest_position
                   FROM postrider_subscriptions
                   ORDER BY name";
        let bound = |row: &Row<'_>| {
            let highest = row.get::<_, Option<i64>>(2)?.map(Position::new);
            Ok(PurgeBound { subscription: row.get(0)?, floor: Position::new(row.get(1)?), highest })
        };
        Ok(self.all(sql, [], bound)?)
    }

    async fn times_within(
        &mut self,
        after: Position,
        last: Position,
        events_max: usize,
    ) -> Result<Vec<(Position, Timestamp)>> {
        // Index: the primary key (position), one range.
        let sql = "SELECT position, time
                   FROM postrider_events
                   WHERE position > ?1 AND position <= ?2
                   ORDER BY position
                   LIMIT ?3";
        let limit = row_limit(events_max);
        let read = |row: &Row<'_>| Ok((position(row)?, Timestamp::from_micros(row.get(1)?)));
        Ok(self.all(sql, params![after.get(), last.get(), limit], read)?)
    }

    async fn parked_within(&mut self, after: Position, last: Position) -> Result<Vec<Position>> {
        // Index: the primary key (subscription, position), one range per subscription.
        let sql = "SELECT p.position
                   FROM postrider_subscriptions AS s
                   CROSS JOIN postrider_parked AS p
                     ON p.subscription = s.name AND p.position > ?1 AND p.position <= ?2";
        Ok(self.all(sql, params![after.get(), last.get()], position)?)
    }

    async fn delete(&mut self, positions: &[Position]) -> Result<()> {
        // Index: the primary key (position).
        let delete = || -> Attempt<()> {
            let mut statement = self.0.prepare_cached("DELETE FROM postrider_events WHERE position = ?1")?;
            for position in positions {
                statement.execute([position.get()])?;
            }
            Ok(())
        };
        Ok(delete()?)
    }
}

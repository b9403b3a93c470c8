//! The server: clock, durability, transactions, bloat.

use std::time::Duration;

use postrider::operate::explain::SqlFlavor;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Check, Queries, Subject, message_of};
use crate::doctor::server;

/// Transactions that began long ago, and whether they have written events. The age of other users' transactions is
/// visible only to members of pg_read_all_stats. No index: shared memory.
const TRANSACTIONS: &str = "
    SELECT 'backend pid ' || a.pid || coalesce(' (' || nullif(a.application_name, '') || ')', '') || ': '
           || a.state || ' for '
           || extract(epoch FROM clock_timestamp() - a.xact_start)::bigint || 's'
           || CASE WHEN EXISTS (SELECT FROM pg_locks AS l
                                WHERE l.pid = a.pid AND l.relation = to_regclass('{schema}.events')
                                  AND l.mode = 'RowExclusiveLock')
                   THEN ', has written events' ELSE '' END,
           a.query
    FROM pg_stat_activity AS a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
      AND a.xact_start < clock_timestamp() - make_interval(secs => $1)
    ORDER BY a.xact_start
    LIMIT 5";

/// Prepared transactions that are old. They have no process: the lock on their transaction id leads to their other
/// locks. No index: shared memory.
const PREPARED: &str = "
    SELECT 'prepared ' || extract(epoch FROM clock_timestamp() - p.prepared)::bigint || 's ago: ' || left(p.gid, 60)
           || CASE WHEN EXISTS (SELECT FROM pg_locks AS own JOIN pg_locks AS l USING (virtualtransaction)
                                WHERE own.transactionid = p.transaction AND own.mode = 'ExclusiveLock'
                                  AND l.relation = to_regclass('{schema}.events')
                                  AND l.mode = 'RowExclusiveLock')
                   THEN ', has written events' ELSE '' END
    FROM pg_prepared_xacts AS p
    WHERE p.database = current_database() AND p.prepared < clock_timestamp() - make_interval(secs => $1)
    ORDER BY p.prepared
    LIMIT 5";

/// More dead rows than autovacuum leaves in a table that it cleans. No index: shared memory.
const BLOAT: &str = "
    SELECT relname || ': ' || n_dead_tup || ' dead rows, cleaned '
           || coalesce(greatest(last_vacuum, last_autovacuum)::text, 'never')
    FROM pg_stat_all_tables
    WHERE schemaname = trim('\"' FROM '{schema}') AND n_dead_tup > 10000 + n_live_tup
    ORDER BY n_dead_tup DESC";

/// Whether the sequence is below a position that a subscription has seen, or has assigned such positions again. An
/// event in a gap of the done ranges was committed late; an event that was stored before the progress comes from a dump
/// of another server. Index: the primary key (position), backwards from the last done position.
const SEQUENCE: &str = "
    WITH seen AS (
        SELECT name, split_part(split_part(done, ' ', -1), '-', -1)::bigint AS done, seen_tx,
               string_to_array(done, ' ') AS ranges
        FROM {schema}.subscriptions
    )
    SELECT s.name || ': position ' || s.done || ' was assigned before, but the sequence is at ' || q.last
    FROM seen AS s,
         (SELECT coalesce(pg_sequence_last_value('{schema}.events_position_seq'::regclass), 0) AS last
          FROM {schema}.events_position_seq) AS q
    WHERE q.last < s.done
    UNION ALL
    SELECT s.name || ': later events are at positions ' || again.first || ' to ' || again.last
           || ', which were assigned before'
    FROM seen AS s
    CROSS JOIN LATERAL (
        SELECT min(position) AS first, max(position) AS last
        FROM (SELECT position, tx, xmin AS stored FROM ONLY {schema}.events
              WHERE position <= s.done ORDER BY position DESC LIMIT 100000) AS top
        WHERE tx >= s.seen_tx AND tx < pg_snapshot_xmax(pg_current_snapshot())
          AND age(stored) <= age(s.seen_tx::xid)
          AND EXISTS (SELECT FROM unnest(s.ranges) WITH ORDINALITY AS r (range, ordinal)
                      WHERE position BETWEEN CASE WHEN ordinal > 1 THEN split_part(range, '-', 1)::bigint ELSE 0 END
                                         AND split_part(range, '-', -1)::bigint)
    ) AS again
    WHERE again.first IS NOT NULL";

/// One line per setting with which a confirmed commit can be lost.
const SETTINGS: &str = "
    SELECT name || ' = ' || setting
    FROM pg_settings
    WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'
    UNION ALL
    SELECT 'the table events is UNLOGGED'
    FROM pg_class
    WHERE oid = to_regclass('{schema}.events') AND relpersistence = 'u'
    ORDER BY 1";

impl Queries<'_> {
    pub(super) async fn version(&self, subject: &mut Subject<'_>) {
        match self.query::<String>("SELECT current_setting('server_version')").await {
            Ok(version) => subject.ok(Check::PostgresVersion, format!("PostgreSQL {}", version.join(""))),
            Err(error) => subject.unchecked(Check::PostgresVersion, &error),
        }
    }

    pub(super) async fn clock(&self, subject: &mut Subject<'_>) {
        let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        server::clock(self.query(sql).await, Check::PostgresClock, subject);
    }

    pub(super) async fn durable(&self, subject: &mut Subject<'_>) {
        subject.lines(Check::PostgresDurable, self.query(SETTINGS).await, "commits survive a crash");
    }

    pub(super) async fn transactions(&self, age_max: Duration, subject: &mut Subject<'_>) {
        let found = self.rows(TRANSACTIONS, &[(&age_max.as_secs_f64(), Type::FLOAT8)]).await;
        let line = |row: &Row| {
            let query: Option<String> = row.try_get(1)?;
            Ok(server::with_statement(row.try_get(0)?, query.as_deref(), SqlFlavor::Postgres))
        };
        let found = found.and_then(|rows| {
            rows.iter().map(line).collect::<Result<_, tokio_postgres::Error>>().map_err(|e| message_of(&e))
        });
        subject.lines(Check::PostgresTransactions, found, "no long-running transaction");
    }

    pub(super) async fn prepared(&self, age_max: Duration, subject: &mut Subject<'_>) {
        let found = self.query_older_than(PREPARED, age_max).await;
        subject.lines(Check::PostgresPrepared, found, "no old prepared transaction");
    }

    pub(super) async fn sequence(&self, subject: &mut Subject<'_>) {
        match self.query::<String>(SEQUENCE).await {
            Ok(lines) if lines.is_empty() => {
                subject.ok(Check::PostgresSequence, "no position was assigned twice")
            }
            Ok(lines) => subject.fail(Check::PostgresSequence, lines.join("; ")),
            Err(error) => subject.unchecked(Check::PostgresSequence, &error),
        }
    }

    pub(super) async fn bloat(&self, subject: &mut Subject<'_>) {
        subject.lines(Check::PostgresBloat, self.query(BLOAT).await, "few dead rows");
    }
}

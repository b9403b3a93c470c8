//! The server: clock, durability, transactions, bloat.

use std::time::Duration;

use postrider::{Clock, SystemClock};

use super::{Check, Server, Subject, tell};
use crate::output::age;

/// Clocks of two machines may differ so much without harm.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);

/// Transactions that began long ago, and whether they hold the outbox. Those of others show their age only to
/// members of pg_read_all_stats. No index: shared memory.
const TRANSACTIONS: &str = "
    SELECT 'backend pid ' || a.pid || coalesce(' (' || nullif(a.application_name, '') || ')', '') || ': '
           || a.state || ' for '
           || extract(epoch FROM clock_timestamp() - a.xact_start)::bigint || 's'
           || CASE WHEN EXISTS (SELECT FROM pg_locks AS l
                                WHERE l.pid = a.pid AND l.relation = to_regclass('{schema}.events')
                                  AND l.mode = 'RowExclusiveLock')
                   THEN ', has written events' ELSE '' END
    FROM pg_stat_activity AS a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
      AND a.xact_start < clock_timestamp() - make_interval(secs => $1)
    ORDER BY a.xact_start
    LIMIT 5";

/// The same of prepared ones, which have no process: the lock on their own number tells their other locks.
/// No index: shared memory.
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

/// Dead rows beyond what autovacuum leaves in a table that it cleans. No index: shared memory.
const BLOAT: &str = "
    SELECT relname || ': ' || n_dead_tup || ' dead rows, cleaned '
           || coalesce(greatest(last_vacuum, last_autovacuum)::text, 'never')
    FROM pg_stat_all_tables
    WHERE schemaname = trim('\"' FROM '{schema}') AND n_dead_tup > 10000 + n_live_tup
    ORDER BY n_dead_tup DESC";

/// Where the sequence is below what a subscription has seen, or has passed it and gave positions again. What stands in a gap
/// of what is done was committed late; what was stored before the progress comes from a dump of another server. Index: the
/// primary key (position), backwards from what is done.
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
          AND EXISTS (SELECT FROM unnest(s.ranges) WITH ORDINALITY AS r (range, place)
                      WHERE position BETWEEN CASE WHEN place > 1 THEN split_part(range, '-', 1)::bigint ELSE 0 END
                                         AND split_part(range, '-', -1)::bigint)
    ) AS again
    WHERE again.first IS NOT NULL";

/// One line per setting that lets a confirmed commit be lost.
const SETTINGS: &str = "
    SELECT name || ' = ' || setting
    FROM pg_settings
    WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'
    UNION ALL
    SELECT 'the table events is UNLOGGED'
    FROM pg_class
    WHERE oid = to_regclass('{schema}.events') AND relpersistence = 'u'
    ORDER BY 1";

impl Server<'_> {
    pub(super) async fn version(&self, subject: &mut Subject<'_>) {
        match self.ask::<String>("SELECT current_setting('server_version')").await {
            Ok(version) => subject.ok(Check::PostgresVersion, format!("PostgreSQL {}", version.join(""))),
            Err(error) => subject.warn(Check::PostgresVersion, format!("cannot be checked: {error}")),
        }
    }

    pub(super) async fn clock(&self, subject: &mut Subject<'_>) {
        let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        let theirs = self.ask::<i64>(sql).await;
        let ours = SystemClock::new().now().wall.as_micros();
        match theirs.map(|theirs| theirs.first().copied().unwrap_or_default().abs_diff(ours)) {
            Ok(micros) if Duration::from_micros(micros) > CLOCK_SKEW_MAX => {
                let apart = age(Duration::from_micros(micros));
                subject.warn(Check::PostgresClock, format!("the clocks are {apart} apart"));
            }
            Ok(_) => subject.ok(Check::PostgresClock, "the clocks agree"),
            Err(error) => subject.warn(Check::PostgresClock, format!("cannot be checked: {error}")),
        }
    }

    pub(super) async fn durable(&self, subject: &mut Subject<'_>) {
        tell(subject, Check::PostgresDurable, self.ask(SETTINGS).await, "commits survive a crash");
    }

    pub(super) async fn transactions(&self, age_max: Duration, subject: &mut Subject<'_>) {
        let found = self.ask_about(TRANSACTIONS, age_max).await;
        tell(subject, Check::PostgresTransactions, found, "no long-running transaction");
    }

    pub(super) async fn prepared(&self, age_max: Duration, subject: &mut Subject<'_>) {
        let found = self.ask_about(PREPARED, age_max).await;
        tell(subject, Check::PostgresPrepared, found, "no old prepared transaction");
    }

    pub(super) async fn sequence(&self, subject: &mut Subject<'_>) {
        match self.ask::<String>(SEQUENCE).await {
            Ok(lines) if lines.is_empty() => {
                subject.ok(Check::PostgresSequence, "no position was assigned twice")
            }
            Ok(lines) => subject.fail(Check::PostgresSequence, lines.join("; ")),
            Err(error) => subject.warn(Check::PostgresSequence, format!("cannot be checked: {error}")),
        }
    }

    pub(super) async fn bloat(&self, subject: &mut Subject<'_>) {
        tell(subject, Check::PostgresBloat, self.ask(BLOAT).await, "few dead rows");
    }
}

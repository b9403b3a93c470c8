-- Each refers to the first; SQLite has no CREATE OR REPLACE.
DROP VIEW IF EXISTS postrider_vw_outbox_backlog;
DROP VIEW IF EXISTS postrider_vw_outbox_throughput_hourly;
DROP VIEW IF EXISTS postrider_vw_outbox_metrics;
DROP VIEW IF EXISTS postrider_vw_outbox_due;
DROP VIEW IF EXISTS postrider_vw_outbox;

-- Times are microseconds since 1970, as in the tables.
CREATE VIEW postrider_vw_outbox AS
{state};

-- Events that a relay would deliver now, and since when.
CREATE VIEW postrider_vw_outbox_due AS
SELECT o.*,
       (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 - o.time) / 1000000 AS age_sec,
       (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 - coalesce(o.next_attempt_at, o.time))
           / 1000000 AS since_next_sec
FROM postrider_vw_outbox AS o
WHERE o.is_due;

-- Per subscription and type: the number of events, the age of those that are not done, and their attempts. A percentile lies between
-- two neighbours in the order, nearer to the nearer one: a row's weight is one minus its distance from there, if it is
-- less than one away.
CREATE VIEW postrider_vw_outbox_metrics AS
SELECT subscription,
       type,
       count(*) AS total,
       count(*) FILTER (WHERE state = 'pending') AS pending,
       count(*) FILTER (WHERE state = 'done') AS done,
       count(*) FILTER (WHERE state = 'failed') AS failed,
       avg(lag_sec) AS avg_created_lag_sec,
       sum(lag_sec * max(0, 1 - abs(place - (1 + 0.5 * (places - 1))))) AS p50_created_lag_sec,
       sum(lag_sec * max(0, 1 - abs(place - (1 + 0.95 * (places - 1))))) AS p95_created_lag_sec,
       avg(attempts) AS avg_attempts,
       max(attempts) AS max_attempts,
       count(*) FILTER (WHERE is_due) AS due_now
FROM (SELECT measured.*,
             row_number() OVER (PARTITION BY subscription, type ORDER BY lag_sec IS NULL, lag_sec) AS place,
             count(lag_sec) OVER (PARTITION BY subscription, type) AS places
      FROM (SELECT subscription, type, state, attempts, is_due,
                   CASE WHEN state <> 'done'
                        THEN (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 - time)
                             / 1000000.0 END AS lag_sec
            FROM postrider_vw_outbox) AS measured) AS ranked
GROUP BY subscription, type;

-- Events written and events received per hour, for hours with at least one of them. The remainder is made positive, so that the hour is right before 1970 too.
CREATE VIEW postrider_vw_outbox_throughput_hourly AS
SELECT strftime('%Y-%m-%dT%H:00:00Z', (time - (time % 1000000 + 1000000) % 1000000) / 1000000, 'unixepoch') AS hour_ts,
       count(written) AS outbox_cnt,
       count(received) AS inbox_cnt
FROM (SELECT time, 1 AS written, NULL AS received FROM postrider_events
      UNION ALL
      SELECT processed_at, NULL, 1 FROM postrider_inbox)
GROUP BY 1;

-- Per subscription, producer and type: the number of events that are not done.
CREATE VIEW postrider_vw_outbox_backlog AS
SELECT subscription,
       coalesce(producer, '(unknown)') AS producer,
       type,
       count(*) FILTER (WHERE state = 'pending') AS pending,
       count(*) FILTER (WHERE state = 'failed') AS failed,
       count(*) AS total
FROM postrider_vw_outbox
GROUP BY 1, 2, 3
ORDER BY pending DESC, failed DESC;

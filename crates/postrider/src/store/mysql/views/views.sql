CREATE OR REPLACE ALGORITHM = UNDEFINED SQL SECURITY INVOKER VIEW {schema}.vw_outbox AS
{state};

-- Events that a relay would deliver now, and since when.
CREATE OR REPLACE ALGORITHM = UNDEFINED SQL SECURITY INVOKER VIEW {schema}.vw_outbox_due AS
SELECT o.*,
       TIMESTAMPDIFF(SECOND, o.time, UTC_TIMESTAMP(6)) AS age_sec,
       TIMESTAMPDIFF(SECOND, COALESCE(o.next_attempt_at, o.time), UTC_TIMESTAMP(6)) AS since_next_sec
FROM {schema}.vw_outbox AS o
WHERE o.is_due;

-- Per subscription and type: the number of events, the age of those that are not done, and their attempts. A percentile lies between
-- two neighbours in the order, nearer to the nearer one: a row's weight is one minus its distance from there, if it is
-- less than one away.
CREATE OR REPLACE ALGORITHM = UNDEFINED SQL SECURITY INVOKER VIEW {schema}.vw_outbox_metrics AS
SELECT subscription,
       type,
       COUNT(*) AS total,
       COUNT(CASE WHEN state = 'pending' THEN 1 END) AS pending,
       COUNT(CASE WHEN state = 'done' THEN 1 END) AS done,
       COUNT(CASE WHEN state = 'failed' THEN 1 END) AS failed,
       AVG(lag_sec) AS avg_created_lag_sec,
       SUM(lag_sec * GREATEST(0, 1 - ABS(place - (1 + 0.5 * (places - 1))))) AS p50_created_lag_sec,
       SUM(lag_sec * GREATEST(0, 1 - ABS(place - (1 + 0.95 * (places - 1))))) AS p95_created_lag_sec,
       AVG(attempts) AS avg_attempts,
       MAX(attempts) AS max_attempts,
       COUNT(CASE WHEN is_due THEN 1 END) AS due_now
FROM (SELECT measured.*,
             ROW_NUMBER() OVER (PARTITION BY subscription, type ORDER BY lag_sec IS NULL, lag_sec) AS place,
             COUNT(lag_sec) OVER (PARTITION BY subscription, type) AS places
      FROM (SELECT subscription, type, state, attempts, is_due,
                   CASE WHEN state <> 'done'
                        THEN TIMESTAMPDIFF(MICROSECOND, time, UTC_TIMESTAMP(6)) / 1000000 END AS lag_sec
            FROM {schema}.vw_outbox) AS measured) AS ranked
GROUP BY subscription, type;

-- Events written and events received per hour, for hours with at least one of them.
CREATE OR REPLACE ALGORITHM = UNDEFINED SQL SECURITY INVOKER VIEW {schema}.vw_outbox_throughput_hourly AS
SELECT hour_ts, COUNT(written) AS outbox_cnt, COUNT(received) AS inbox_cnt
FROM (SELECT TIMESTAMP(DATE(time), MAKETIME(HOUR(time), 0, 0)) AS hour_ts, 1 AS written, NULL AS received
      FROM {schema}.events
      UNION ALL
      SELECT TIMESTAMP(DATE(processed_at), MAKETIME(HOUR(processed_at), 0, 0)), NULL, 1
      FROM {schema}.inbox) AS either
GROUP BY hour_ts;

-- Per subscription, producer and type: the number of events that are not done.
CREATE OR REPLACE ALGORITHM = UNDEFINED SQL SECURITY INVOKER VIEW {schema}.vw_outbox_backlog AS
SELECT o.subscription AS subscription,
       COALESCE(o.producer, '(unknown)') AS producer,
       o.type AS type,
       COUNT(CASE WHEN o.state = 'pending' THEN 1 END) AS pending,
       COUNT(CASE WHEN o.state = 'failed' THEN 1 END) AS failed,
       COUNT(*) AS total
FROM {schema}.vw_outbox AS o
GROUP BY 1, 2, 3
ORDER BY pending DESC, failed DESC;

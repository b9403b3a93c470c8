CREATE OR REPLACE VIEW {schema}.vw_outbox AS
{state};

-- Events that a relay would deliver now, and since when.
CREATE OR REPLACE VIEW {schema}.vw_outbox_due AS
SELECT o.*,
       floor(extract(epoch FROM now() - o.time))::bigint AS age_sec,
       floor(extract(epoch FROM now() - coalesce(o.next_attempt_at, o.time)))::bigint AS since_next_sec
FROM {schema}.vw_outbox AS o
WHERE o.is_due;

-- Per subscription and type: the number of events, the age of those that are not done, and their attempts.
CREATE OR REPLACE VIEW {schema}.vw_outbox_metrics AS
SELECT subscription,
       type,
       count(*) AS total,
       count(*) FILTER (WHERE state = 'pending') AS pending,
       count(*) FILTER (WHERE state = 'done') AS done,
       count(*) FILTER (WHERE state = 'failed') AS failed,
       avg(lag_sec) AS avg_created_lag_sec,
       pg_catalog.percentile_cont(0.5) WITHIN GROUP (ORDER BY lag_sec) AS p50_created_lag_sec,
       pg_catalog.percentile_cont(0.95) WITHIN GROUP (ORDER BY lag_sec) AS p95_created_lag_sec,
       avg(attempts) AS avg_attempts,
       max(attempts) AS max_attempts,
       count(*) FILTER (WHERE is_due) AS due_now
FROM (SELECT o.*, CASE WHEN state <> 'done' THEN extract(epoch FROM now() - time)::double precision END AS lag_sec
      FROM {schema}.vw_outbox AS o) AS measured
GROUP BY subscription, type;

-- Events written and events received per hour, for hours with at least one of them.
CREATE OR REPLACE VIEW {schema}.vw_outbox_throughput_hourly AS
SELECT hour_ts, count(written) AS outbox_cnt, count(received) AS inbox_cnt
FROM (SELECT date_trunc('hour', time, 'UTC') AS hour_ts, 1 AS written, NULL::integer AS received
      FROM ONLY {schema}.events
      UNION ALL
      SELECT date_trunc('hour', processed_at, 'UTC'), NULL, 1
      FROM {schema}.inbox) AS either
GROUP BY 1;

-- Per subscription, producer and type: the number of events that are not done.
CREATE OR REPLACE VIEW {schema}.vw_outbox_backlog AS
SELECT subscription,
       coalesce(producer, '(unknown)') AS producer,
       type,
       count(*) FILTER (WHERE state = 'pending') AS pending,
       count(*) FILTER (WHERE state = 'failed') AS failed,
       count(*) AS total
FROM {schema}.vw_outbox
GROUP BY 1, 2, 3
ORDER BY pending DESC, failed DESC;

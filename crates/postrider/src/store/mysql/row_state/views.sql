-- The views of the layout event_outbox; the one over hours is in a separate file. A view that counts
-- cannot be merged into the query around it, whatever it says; the documented views list MERGE for all.
CREATE ALGORITHM = MERGE SQL SECURITY INVOKER VIEW {table_schema}.vw_event_outbox AS
SELECT e.*,
       e.status = 'pending' AS is_pending,
       e.status = 'pending' AND (e.next_attempt_at IS NULL OR e.next_attempt_at <= UTC_TIMESTAMP(6)) AS is_due
FROM {table} AS e;

-- The rows that a publisher would claim now. Unlike is_due above, it includes failed rows: they are retried.
CREATE ALGORITHM = MERGE SQL SECURITY INVOKER VIEW {table_schema}.vw_event_outbox_due AS
SELECT e.*,
       TIMESTAMPDIFF(SECOND, e.created_at, UTC_TIMESTAMP(6)) AS age_sec,
       TIMESTAMPDIFF(SECOND, COALESCE(e.next_attempt_at, e.created_at), UTC_TIMESTAMP(6)) AS since_next_sec
FROM {table} AS e
WHERE e.status IN ('pending', 'failed')
  AND (e.next_attempt_at IS NULL OR e.next_attempt_at <= UTC_TIMESTAMP(6));

-- The time from creation to delivery, per type. A percentile lies between two neighbours in the order, nearer to the
-- nearer one: a row's weight is one minus its distance from there, if it is less than one away.
CREATE ALGORITHM = UNDEFINED SQL SECURITY INVOKER VIEW {table_schema}.vw_event_outbox_latency AS
SELECT event_type,
       COUNT(*) AS processed,
       AVG(latency_sec) AS avg_latency_sec,
       SUM(latency_sec * GREATEST(0, 1 - ABS(place - (1 + 0.5 * (places - 1))))) AS p50_latency_sec,
       SUM(latency_sec * GREATEST(0, 1 - ABS(place - (1 + 0.95 * (places - 1))))) AS p95_latency_sec,
       MAX(latency_sec) AS max_latency_sec
FROM (SELECT event_type,
             latency_sec,
             ROW_NUMBER() OVER (PARTITION BY event_type ORDER BY latency_sec) AS place,
             COUNT(*) OVER (PARTITION BY event_type) AS places
      FROM (SELECT event_type, TIMESTAMPDIFF(MICROSECOND, created_at, processed_at) / 1000000 AS latency_sec
            FROM {table}
            WHERE processed_at IS NOT NULL) AS done) AS ranked
GROUP BY event_type;

-- Per type: the number of rows, the age of undelivered rows, and their attempts. Delivered rows have no age; see
-- adr/0035-views-of-event-outbox.md.
CREATE ALGORITHM = UNDEFINED SQL SECURITY INVOKER VIEW {table_schema}.vw_event_outbox_metrics AS
SELECT event_type,
       COUNT(*) AS total,
       COALESCE(SUM(status = 'pending'), 0) AS pending,
       COALESCE(SUM(status = 'sent'), 0) AS sent,
       COALESCE(SUM(status = 'failed'), 0) AS failed,
       AVG(lag_sec) AS avg_created_lag_sec,
       SUM(lag_sec * GREATEST(0, 1 - ABS(place - (1 + 0.5 * (places - 1))))) AS p50_created_lag_sec,
       SUM(lag_sec * GREATEST(0, 1 - ABS(place - (1 + 0.95 * (places - 1))))) AS p95_created_lag_sec,
       AVG(attempts) AS avg_attempts,
       MAX(attempts) AS max_attempts,
       COALESCE(SUM(status IN ('pending', 'failed')
                    AND (next_attempt_at IS NULL OR next_attempt_at <= UTC_TIMESTAMP(6))), 0) AS due_now
FROM (SELECT measured.*,
             ROW_NUMBER() OVER (PARTITION BY event_type ORDER BY lag_sec IS NULL, lag_sec) AS place,
             COUNT(lag_sec) OVER (PARTITION BY event_type) AS places
      FROM (SELECT event_type, status, attempts, next_attempt_at,
                   CASE WHEN status <> 'sent'
                        THEN TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(6)) / 1000000 END AS lag_sec
            FROM {table}) AS measured) AS ranked
GROUP BY event_type;

-- Undelivered rows, per producer and type.
CREATE ALGORITHM = UNDEFINED SQL SECURITY INVOKER VIEW {table_schema}.vw_sync_backlog_by_node AS
SELECT COALESCE(e.producer_node, '(unknown)') AS producer_node,
       e.event_type AS event_type,
       SUM(e.status = 'pending') AS pending,
       SUM(e.status = 'failed') AS failed,
       COUNT(*) AS total
FROM {table} AS e
GROUP BY 1, 2
ORDER BY pending DESC, failed DESC;

-- The views of the layout event_outbox; the one over hours is in a separate file.
CREATE VIEW {table_schema}."vw_event_outbox" AS
SELECT e.*,
       e.status = 'pending' AS is_pending,
       e.status = 'pending' AND (e.next_attempt_at IS NULL OR e.next_attempt_at <= now()) AS is_due
FROM {table} AS e;

-- The rows that a publisher would claim now. Unlike is_due above, it includes failed rows: they are retried.
CREATE VIEW {table_schema}."vw_event_outbox_due" AS
SELECT e.*,
       floor(extract(epoch FROM now() - e.created_at))::bigint AS age_sec,
       floor(extract(epoch FROM now() - coalesce(e.next_attempt_at, e.created_at)))::bigint AS since_next_sec
FROM {table} AS e
WHERE e.status IN ('pending', 'failed') AND (e.next_attempt_at IS NULL OR e.next_attempt_at <= now());

-- The time from creation to delivery, per type.
CREATE VIEW {table_schema}."vw_event_outbox_latency" AS
SELECT event_type,
       count(*) AS processed,
       avg(latency_sec) AS avg_latency_sec,
       pg_catalog.percentile_cont(0.5) WITHIN GROUP (ORDER BY latency_sec) AS p50_latency_sec,
       pg_catalog.percentile_cont(0.95) WITHIN GROUP (ORDER BY latency_sec) AS p95_latency_sec,
       max(latency_sec) AS max_latency_sec
FROM (SELECT event_type, extract(epoch FROM processed_at - created_at)::double precision AS latency_sec
      FROM {table}
      WHERE processed_at IS NOT NULL) AS done
GROUP BY event_type;

-- Per type: the number of rows, the age of undelivered rows, and their attempts. Delivered rows have no age; see
-- adr/0035-views-of-event-outbox.md.
CREATE VIEW {table_schema}."vw_event_outbox_metrics" AS
SELECT event_type,
       count(*) AS total,
       count(*) FILTER (WHERE status = 'pending') AS pending,
       count(*) FILTER (WHERE status = 'sent') AS sent,
       count(*) FILTER (WHERE status = 'failed') AS failed,
       avg(lag_sec) AS avg_created_lag_sec,
       pg_catalog.percentile_cont(0.5) WITHIN GROUP (ORDER BY lag_sec) AS p50_created_lag_sec,
       pg_catalog.percentile_cont(0.95) WITHIN GROUP (ORDER BY lag_sec) AS p95_created_lag_sec,
       avg(attempts) AS avg_attempts,
       max(attempts) AS max_attempts,
       count(*) FILTER (WHERE status IN ('pending', 'failed')
                          AND (next_attempt_at IS NULL OR next_attempt_at <= now())) AS due_now
FROM (SELECT e.*,
             CASE WHEN status <> 'sent' THEN extract(epoch FROM now() - created_at)::double precision END AS lag_sec
      FROM {table} AS e) AS measured
GROUP BY event_type;

-- Undelivered rows, per producer and type.
CREATE VIEW {table_schema}."vw_sync_backlog_by_node" AS
SELECT coalesce(producer_node, '(unknown)') AS producer_node,
       event_type,
       count(*) FILTER (WHERE status = 'pending') AS pending,
       count(*) FILTER (WHERE status = 'failed') AS failed,
       count(*) AS total
FROM {table}
GROUP BY 1, 2
ORDER BY pending DESC, failed DESC;

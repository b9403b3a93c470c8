-- Events written and events received per hour, for hours with at least one of them. Received events are counted in
-- Postrider's own inbox.
CREATE ALGORITHM = UNDEFINED SQL SECURITY INVOKER VIEW {table_schema}.vw_event_throughput_hourly AS
SELECT hour_ts, COUNT(written) AS outbox_cnt, COUNT(received) AS inbox_cnt
FROM (SELECT TIMESTAMP(DATE(created_at), MAKETIME(HOUR(created_at), 0, 0)) AS hour_ts, 1 AS written, NULL AS received
      FROM {table}
      UNION ALL
      SELECT TIMESTAMP(DATE(processed_at), MAKETIME(HOUR(processed_at), 0, 0)), NULL, 1
      FROM {schema}.inbox) AS either
GROUP BY hour_ts;

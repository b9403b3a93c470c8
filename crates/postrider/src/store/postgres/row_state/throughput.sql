-- Events written and events received per hour, for hours with at least one of them. Received events are counted in
-- Postrider's own inbox.
CREATE VIEW {table_schema}."vw_event_throughput_hourly" AS
SELECT hour_ts, count(written) AS outbox_cnt, count(received) AS inbox_cnt
FROM (SELECT date_trunc('hour', created_at, 'UTC') AS hour_ts, 1 AS written, NULL::integer AS received
      FROM {table}
      UNION ALL
      SELECT date_trunc('hour', processed_at, 'UTC'), NULL, 1
      FROM {schema}.inbox) AS either
GROUP BY 1;

-- Events written and events received per hour, for hours with at least one of them. Received events are counted in the
-- table event_inbox of the outbox's schema and in Postrider's own inbox.
CREATE VIEW {table_schema}."vw_event_throughput_hourly" AS
SELECT hour_ts, count(written) AS outbox_cnt, count(received) AS inbox_cnt
FROM (SELECT date_trunc('hour', created_at, 'UTC') AS hour_ts, 1 AS written, NULL::integer AS received
      FROM {table}
      UNION ALL
      SELECT date_trunc('hour', {received}, 'UTC'), NULL, 1
      FROM {table_schema}."event_inbox"
      WHERE received_at IS NOT NULL
      UNION ALL
      SELECT date_trunc('hour', processed_at, 'UTC'), NULL, 1
      FROM {schema}.inbox) AS either
GROUP BY 1;

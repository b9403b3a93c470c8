-- Events written and events received per hour, for hours with at least one of them.
CREATE VIEW {views}."vw_event_throughput_hourly" AS
SELECT hour_ts, coalesce(outbox_cnt, 0) AS outbox_cnt, coalesce(inbox_cnt, 0) AS inbox_cnt
FROM (SELECT date_trunc('hour', created_at, 'UTC') AS hour_ts, count(*) AS outbox_cnt
      FROM {table}
      GROUP BY 1) AS written
FULL JOIN (SELECT date_trunc('hour', {received}, 'UTC') AS hour_ts, count(*) AS inbox_cnt
           FROM {views}."event_inbox"
           WHERE received_at IS NOT NULL
           GROUP BY 1) AS received USING (hour_ts);

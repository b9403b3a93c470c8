-- Events written per hour. Nothing is received here: there is no table event_inbox with received_at beside the outbox.
-- Postrider's own inbox is not built yet; when it is, this is where it is counted.
CREATE VIEW {views}."vw_event_throughput_hourly" AS
SELECT date_trunc('hour', created_at, 'UTC') AS hour_ts, count(*) AS outbox_cnt, 0::bigint AS inbox_cnt
FROM {table}
GROUP BY 1;

-- Events written per hour. Nothing is received here: there is no table event_inbox with received_at beside the outbox.
-- Postrider's own inbox is not built yet; when it is, this is where it is counted.
CREATE ALGORITHM = UNDEFINED SQL SECURITY INVOKER VIEW {views}.vw_event_throughput_hourly AS
SELECT TIMESTAMP(DATE(created_at), MAKETIME(HOUR(created_at), 0, 0)) AS hour_ts,
       COUNT(*) AS outbox_cnt,
       0 AS inbox_cnt
FROM {table}
GROUP BY hour_ts;

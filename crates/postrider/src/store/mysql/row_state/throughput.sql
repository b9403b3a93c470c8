-- Events written per hour. No events are received: there is no table event_inbox with a column received_at. Postrider's own
-- inbox does not exist yet.
CREATE ALGORITHM = UNDEFINED SQL SECURITY INVOKER VIEW {views}.vw_event_throughput_hourly AS
SELECT TIMESTAMP(DATE(created_at), MAKETIME(HOUR(created_at), 0, 0)) AS hour_ts,
       COUNT(*) AS outbox_cnt,
       0 AS inbox_cnt
FROM {table}
GROUP BY hour_ts;

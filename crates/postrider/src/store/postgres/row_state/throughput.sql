-- Events written per hour. No events are received: there is no table event_inbox with a column received_at. Postrider's own
-- inbox does not exist yet.
CREATE VIEW {views}."vw_event_throughput_hourly" AS
SELECT date_trunc('hour', created_at, 'UTC') AS hour_ts, count(*) AS outbox_cnt, 0::bigint AS inbox_cnt
FROM {table}
GROUP BY 1;

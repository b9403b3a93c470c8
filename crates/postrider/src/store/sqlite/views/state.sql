-- Every event with its state, per subscription; once if there is no subscription. The time of delivery is not stored:
-- the ledger records which events are done. A done event was delivered, or the subscription's filter excludes it.
-- Indexes: the primary keys of postrider_events, which is read completely, and of postrider_parked (subscription, position).
WITH ranges AS MATERIALIZED (
    -- "40 43-50 52": all up to 40, and the ranges above it.
    SELECT s.name, CASE r.key WHEN 0 THEN -9223372036854775807 ELSE json_extract(r.value, '$[0]') END AS lowest,
           coalesce(json_extract(r.value, '$[1]'), json_extract(r.value, '$[0]')) AS highest
    FROM postrider_subscriptions AS s,
         json_each('[[' || replace(replace(s.done, '-', ','), ' ', '],[') || ']]') AS r
), segments AS MATERIALIZED (
    -- What is done and what is not, without gaps. Each event is looked up in one of them, not compared with all.
    SELECT name, lowest AS seg_first, highest AS seg_last, 'done' AS state FROM ranges
    UNION ALL
    SELECT name, highest + 1, coalesce(lead(lowest) OVER (PARTITION BY name ORDER BY lowest) - 1, 9223372036854775807),
           'pending'
    FROM ranges
    UNION ALL
    SELECT NULL, -9223372036854775807, 9223372036854775807, 'pending'
    WHERE NOT EXISTS (SELECT 1 FROM postrider_subscriptions)
)
SELECT subscription, position, id, type, aggregate_type, aggregate_id, key, topic, producer, time, state, parked,
       CASE WHEN state <> 'done' THEN attempts END AS attempts, next_attempt_at, last_error,
       state = 'pending' AS is_pending,
       subscription IS NOT NULL
         AND (state = 'pending' AND parked IS NULL
              OR state = 'failed' AND parked = 'retry'
                 AND (next_attempt_at IS NULL
                      OR next_attempt_at <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000)
             ) AS is_due
FROM (SELECT g.name AS subscription, e.position, e.id, e.type, e.aggregate_type, e.aggregate_id,
             coalesce(e.key, e.aggregate_id) AS key, e.topic, e.producer, e.time,
             CASE WHEN p.state IN ('behind', 'held') THEN 'pending'
                  WHEN p.state IS NOT NULL THEN 'failed'
                  ELSE g.state END AS state,
             p.state AS parked, coalesce(p.attempts, 0) AS attempts, p.next_attempt_at, p.last_error
      -- CROSS JOIN keeps this order: a range of the events for each segment.
      FROM segments AS g
      CROSS JOIN postrider_events AS e ON e.position BETWEEN g.seg_first AND g.seg_last
      LEFT JOIN postrider_parked AS p ON p.subscription = g.name AND p.position = e.position) AS known

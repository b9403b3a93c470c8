-- Every event with its state, per subscription; without any, once. There is no time of delivery: an event is done when
-- the ledger says so, and the ledger has no times. What is done was delivered, or the subscription did not want it.
-- Indexes: the primary keys of postrider_parked (subscription, position). The events are read whole.
WITH ranges AS MATERIALIZED (
    -- "40 43-50 52": all up to 40, and the ranges above it.
    SELECT s.name, json_extract(r.value, '$[0]') AS lowest,
           coalesce(json_extract(r.value, '$[1]'), json_extract(r.value, '$[0]')) AS highest
    FROM postrider_subscriptions AS s,
         json_each('[[' || replace(replace(s.done, '-', ','), ' ', '],[') || ']]') AS r
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
FROM (SELECT s.name AS subscription, e.position, e.id, e.type, e.aggregate_type, e.aggregate_id,
             coalesce(e.key, e.aggregate_id) AS key, e.topic, e.producer, e.time,
             CASE WHEN p.state IN ('behind', 'held') THEN 'pending'
                  WHEN p.state IS NOT NULL THEN 'failed'
                  WHEN e.position <= s.floor THEN 'done'
                  WHEN EXISTS (SELECT 1 FROM ranges AS d
                               WHERE d.name = s.name AND e.position BETWEEN d.lowest AND d.highest) THEN 'done'
                  ELSE 'pending' END AS state,
             p.state AS parked, coalesce(p.attempts, 0) AS attempts, p.next_attempt_at, p.last_error
      FROM postrider_events AS e
      LEFT JOIN postrider_subscriptions AS s ON true
      LEFT JOIN postrider_parked AS p ON p.subscription = s.name AND p.position = e.position) AS known

-- Every event with its state, per subscription; once if there is no subscription. The time of delivery is not stored:
-- the ledger records which events are done. A done event was delivered, or the subscription's filter excludes it.
-- Indexes: the primary keys of events, which is read completely, and of parked (subscription, position).
WITH ranges AS (
    -- "40 43-50 52": all up to 40, and the ranges above it.
    SELECT s.name, IF(r.place = 1, -9223372036854775807, r.lowest) AS lowest, COALESCE(r.highest, r.lowest) AS highest
    FROM {schema}.subscriptions AS s
    JOIN JSON_TABLE(CONCAT('[[', REPLACE(REPLACE(s.done, '-', ','), ' ', '],['), ']]'), '$[*]'
                    COLUMNS (place FOR ORDINALITY, lowest BIGINT PATH '$[0]', highest BIGINT PATH '$[1]')) AS r
), segments AS (
    -- What is done and what is not, without gaps. Each event is looked up in one of them, not compared with all.
    SELECT name, lowest AS seg_first, highest AS seg_last, 'done' AS state FROM ranges
    UNION ALL
    SELECT name, highest + 1, COALESCE(LEAD(lowest) OVER (PARTITION BY name ORDER BY lowest) - 1, 9223372036854775807),
           'pending'
    FROM ranges
    UNION ALL
    SELECT NULL, -9223372036854775807, 9223372036854775807, 'pending'
    FROM (SELECT COUNT(*) AS subscriptions FROM {schema}.subscriptions) AS counted WHERE subscriptions = 0
)
SELECT subscription, position, id, type, aggregate_type, aggregate_id, `key`, topic, producer, time, state, parked,
       CASE WHEN state <> 'done' THEN attempts END AS attempts, next_attempt_at, last_error,
       state = 'pending' AS is_pending,
       subscription IS NOT NULL
         AND (state = 'pending' AND parked IS NULL
              OR state = 'failed' AND parked = 'retry'
                 AND (next_attempt_at IS NULL OR next_attempt_at <= UTC_TIMESTAMP(6))) AS is_due
FROM (SELECT g.name AS subscription, e.position,
             LOWER(CONCAT_WS('-', SUBSTR(HEX(e.id), 1, 8), SUBSTR(HEX(e.id), 9, 4), SUBSTR(HEX(e.id), 13, 4),
                                  SUBSTR(HEX(e.id), 17, 4), SUBSTR(HEX(e.id), 21))) AS id,
             e.type, e.aggregate_type, e.aggregate_id, COALESCE(e.`key`, e.aggregate_id) AS `key`, e.topic, e.producer,
             e.time,
             CASE WHEN p.state IN ('behind', 'held') THEN 'pending'
                  WHEN p.state IS NOT NULL THEN 'failed'
                  ELSE g.state END AS state,
             p.state AS parked, COALESCE(p.attempts, 0) AS attempts, p.next_attempt_at, p.last_error
      -- STRAIGHT_JOIN keeps this order: a range of the events for each segment.
      FROM segments AS g
      STRAIGHT_JOIN {schema}.events AS e ON e.position BETWEEN g.seg_first AND g.seg_last
      LEFT JOIN {schema}.parked AS p ON p.subscription = g.name AND p.position = e.position) AS known

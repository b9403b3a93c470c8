-- Every event with its state, per subscription; without any, once. There is no time of delivery: an event is done when
-- the ledger says so, and the ledger has no times. What is done was delivered, or the subscription did not want it.
-- Indexes: the primary keys of parked (subscription, position). The events are read whole.
SELECT subscription, position, id, type, aggregate_type, aggregate_id, `key`, topic, producer, time, state, parked,
       CASE WHEN state <> 'done' THEN attempts END AS attempts, next_attempt_at, last_error,
       state = 'pending' AS is_pending,
       subscription IS NOT NULL
         AND (state = 'pending' AND parked IS NULL
              OR state = 'failed' AND parked = 'retry'
                 AND (next_attempt_at IS NULL OR next_attempt_at <= UTC_TIMESTAMP(6))) AS is_due
FROM (SELECT s.name AS subscription, e.position,
             LOWER(CONCAT_WS('-', SUBSTR(HEX(e.id), 1, 8), SUBSTR(HEX(e.id), 9, 4), SUBSTR(HEX(e.id), 13, 4),
                                  SUBSTR(HEX(e.id), 17, 4), SUBSTR(HEX(e.id), 21))) AS id,
             e.type, e.aggregate_type, e.aggregate_id, COALESCE(e.`key`, e.aggregate_id) AS `key`, e.topic, e.producer,
             e.time,
             CASE WHEN p.state IN ('behind', 'held') THEN 'pending'
                  WHEN p.state IS NOT NULL THEN 'failed'
                  WHEN e.position <= s.floor THEN 'done'
                  -- "40 43-50 52": all up to 40, and the ranges above it. DISTINCT has them taken apart once, not per event.
                  WHEN EXISTS (SELECT 1
                               FROM (SELECT DISTINCT s.name, r.lowest, COALESCE(r.highest, r.lowest) AS highest
                                     FROM {schema}.subscriptions AS s
                                     JOIN JSON_TABLE(CONCAT('[[', REPLACE(REPLACE(s.done, '-', ','), ' ', '],['), ']]'), '$[*]'
                                                     COLUMNS (lowest BIGINT PATH '$[0]', highest BIGINT PATH '$[1]')) AS r
                                    ) AS d
                               WHERE d.name = s.name AND e.position BETWEEN d.lowest AND d.highest) THEN 'done'
                  ELSE 'pending' END AS state,
             p.state AS parked, COALESCE(p.attempts, 0) AS attempts, p.next_attempt_at, p.last_error
      FROM {schema}.events AS e
      LEFT JOIN {schema}.subscriptions AS s ON TRUE
      LEFT JOIN {schema}.parked AS p ON p.subscription = s.name AND p.position = e.position) AS known

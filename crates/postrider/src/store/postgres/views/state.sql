-- Every event with its state, per subscription; once if there is no subscription. The time of delivery is not stored:
-- the ledger records which events are done. A done event was delivered, or the subscription's filter excludes it.
-- Indexes: the primary keys of parked (subscription, position). The table of events is read completely.
WITH progress AS MATERIALIZED (
    -- "40 43-50 52": all up to 40, and the ranges above it.
    SELECT s.name,
           (SELECT pg_catalog.range_agg(pg_catalog.int8range(CASE WHEN place > 1 THEN split_part(part, '-', 1)::bigint END,
                                       split_part(part, '-', -1)::bigint, '[]'))
            FROM pg_catalog.unnest(pg_catalog.string_to_array(s.done, ' ')) WITH ORDINALITY AS parts (part, place)) AS done
    FROM {schema}.subscriptions AS s
), known AS (
    SELECT s.name AS subscription, e.position, e.id, e.type, e.aggregate_type, e.aggregate_id,
           coalesce(e.key, e.aggregate_id) AS key, e.topic, e.producer, e.time,
           CASE WHEN p.state IN ('behind', 'held') THEN 'pending'
                WHEN p.state IS NOT NULL THEN 'failed'
                WHEN s.done @> e.position THEN 'done'
                ELSE 'pending' END AS state,
           p.state AS parked, coalesce(p.attempts, 0) AS attempts, p.next_attempt_at, p.last_error
    FROM ONLY {schema}.events AS e
    LEFT JOIN progress AS s ON true
    LEFT JOIN {schema}.parked AS p ON p.subscription = s.name AND p.position = e.position
)
SELECT subscription, position, id, type, aggregate_type, aggregate_id, key, topic, producer, time, state, parked,
       CASE WHEN state <> 'done' THEN attempts END AS attempts, next_attempt_at, last_error,
       state = 'pending' AS is_pending,
       subscription IS NOT NULL
         AND (state = 'pending' AND parked IS NULL
              OR state = 'failed' AND parked = 'retry' AND (next_attempt_at IS NULL OR next_attempt_at <= now())) AS is_due
FROM known

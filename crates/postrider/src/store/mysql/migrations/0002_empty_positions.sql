-- Positions that a subscription has settled as empty. If a row appears at one of them, its writer chose the position, and the
-- row was not delivered. Relays and `doctor` search for such rows.
CREATE TABLE IF NOT EXISTS {schema}.empty_positions (
    subscription VARCHAR(255) NOT NULL PRIMARY KEY,
    ranges       LONGTEXT NOT NULL,                   -- both ends included, the newest: "1-40 43 50-52"
    updated_at   DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The outbox in readable form, with the rights of the user who reads it: ids as text, the payload as text if it is JSON,
-- otherwise in hex.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW {schema}.events_json AS
SELECT position,
       LOWER(CONCAT_WS('-', SUBSTR(HEX(id), 1, 8), SUBSTR(HEX(id), 9, 4), SUBSTR(HEX(id), 13, 4),
                            SUBSTR(HEX(id), 17, 4), SUBSTR(HEX(id), 21))) AS id,
       type, aggregate_type, aggregate_id, COALESCE(`key`, aggregate_id) AS `key`,
       IF(JSON_VALID(CONVERT(payload USING utf8mb4)), CONVERT(payload USING utf8mb4), HEX(payload)) AS payload,
       headers, time, topic, max_attempts, expires_at, action, namespace, producer
FROM {schema}.events;

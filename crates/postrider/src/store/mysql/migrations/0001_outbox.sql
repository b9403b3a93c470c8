-- The outbox and its ledger. Runs on MySQL 8.0.16 and later and on MariaDB 10.6 and later. Every time is UTC.

-- Written with a plain INSERT; only type and payload are required. The CHECKs refuse values that a relay could not
-- read. Never supply a position: finding every event depends on AUTO_INCREMENT.
-- The position is the only index: each further one would slow down the writers.
CREATE TABLE IF NOT EXISTS {schema}.events (
    position       BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    time           DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    expires_at     DATETIME(6),
    max_attempts   BIGINT CHECK (max_attempts BETWEEN 1 AND 4294967295),
    -- By default a UUIDv7: 48 bits of milliseconds, the version, the rest nearly random.
    id             BINARY(16) NOT NULL DEFAULT (UNHEX(CONCAT(
                       LPAD(HEX(FLOOR(UNIX_TIMESTAMP(SYSDATE(3)) * 1000)), 12, '0'),
                       '7', SUBSTR(SHA2(UUID(), 224), 1, 3),
                       ELT(1 + FLOOR(RAND() * 4), '8', '9', 'a', 'b'), SUBSTR(SHA2(UUID(), 224), 1, 15)))),
    type           TEXT NOT NULL CHECK (type <> ''),
    aggregate_type TEXT,
    aggregate_id   TEXT,
    -- Events with the same key are delivered in order. NULL: the aggregate's id.
    `key`          TEXT,
    -- Delivered as the same bytes.
    payload        LONGBLOB NOT NULL,
    -- An object of strings. The type JSON would reformat the text on MySQL.
    headers        MEDIUMTEXT CHECK (JSON_TYPE(headers) = 'OBJECT'),
    topic          TEXT,
    -- An object: id, name, params (any JSON), started and completed (microseconds).
    action         MEDIUMTEXT CHECK (JSON_TYPE(action) = 'OBJECT'),
    namespace      TEXT,
    producer       TEXT,
    CHECK ((aggregate_type IS NULL) = (aggregate_id IS NULL))
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row per subscription: its progress, and the epoch of the relay that may change it.
CREATE TABLE IF NOT EXISTS {schema}.subscriptions (
    name             VARCHAR(255) NOT NULL PRIMARY KEY,
    epoch            BIGINT NOT NULL DEFAULT 0,
    floor            BIGINT NOT NULL DEFAULT 0,       -- all positions up to here are done
    done             LONGTEXT NOT NULL,               -- the floor and the done ranges above it: "40 43-50 52"
    highest_position BIGINT,                          -- the highest event seen; cleanup keeps that row
    highest_id       BINARY(16),
    trial            LONGTEXT,                        -- positions of the batch being tried after a crash: "41 42"
    trial_deaths     BIGINT NOT NULL DEFAULT 0,
    clean            BOOLEAN NOT NULL DEFAULT TRUE,   -- whether the last owner released the lease cleanly
    paused           TEXT,                            -- why it is paused
    halted           TEXT,                            -- why it is halted
    history          VARCHAR(255),                    -- the server that the progress belongs to
    created_at       DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    updated_at       DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    CHECK ((highest_position IS NULL) = (highest_id IS NULL))
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Events of each subscription that could not be delivered, or that wait behind such an event.
CREATE TABLE IF NOT EXISTS {schema}.parked (
    subscription    VARCHAR(255) NOT NULL,
    position        BIGINT NOT NULL,
    `key`           TEXT,
    destination     TEXT,
    state           VARCHAR(16) NOT NULL
                    CHECK (state IN ('retry', 'behind', 'held', 'dead', 'expired', 'unrouted')),
    attempts        BIGINT NOT NULL CHECK (attempts BETWEEN 0 AND 4294967295),
    next_attempt_at DATETIME(6),
    last_error      MEDIUMTEXT,
    event_id        BINARY(16),                       -- the event that was parked; another may get its position
    parked_at       DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    updated_at      DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    PRIMARY KEY (subscription, position)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The outbox in readable form: ids as text, the payload as text if it is JSON, otherwise in hex.
CREATE OR REPLACE VIEW {schema}.events_json AS
SELECT position,
       LOWER(CONCAT_WS('-', SUBSTR(HEX(id), 1, 8), SUBSTR(HEX(id), 9, 4), SUBSTR(HEX(id), 13, 4),
                            SUBSTR(HEX(id), 17, 4), SUBSTR(HEX(id), 21))) AS id,
       type, aggregate_type, aggregate_id, COALESCE(`key`, aggregate_id) AS `key`,
       IF(JSON_VALID(CONVERT(payload USING utf8mb4)), CONVERT(payload USING utf8mb4), HEX(payload)) AS payload,
       headers, time, topic, max_attempts, expires_at, action, namespace, producer
FROM {schema}.events;

-- The handlers of layout eventlog. Other layouts do not have these tables.

-- Which events are fanned out to which handler. Only an operator removes a row.
CREATE TABLE IF NOT EXISTS {schema}.handler_types (
    handler       VARCHAR(255) NOT NULL,
    event_type    VARCHAR(255) NOT NULL,        -- '*' matches any text
    since         DATETIME(6),                  -- older events are not fanned out to the handler
    registered_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    searched_at   DATETIME(6),                  -- when the last search for missed events began
    PRIMARY KEY (handler, event_type)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Earlier names of handlers.
CREATE TABLE IF NOT EXISTS {schema}.handler_aliases (
    alias   VARCHAR(255) NOT NULL PRIMARY KEY,
    handler VARCHAR(255) NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Locked by a fan-out and by a registration; one row.
CREATE TABLE IF NOT EXISTS {schema}.fan_out (
    only_one TINYINT NOT NULL DEFAULT 1 PRIMARY KEY CHECK (only_one = 1)
) ENGINE = InnoDB;
INSERT INTO {schema}.fan_out (only_one) VALUES (1) ON DUPLICATE KEY UPDATE only_one = 1;

-- Postrider's own tables for a table with a state per row. Runs on MySQL 8.0.16 and MariaDB 10.6 and
-- later, and can be run again after an interruption. Times are UTC.

-- The table with a state per row; one row.
CREATE TABLE IF NOT EXISTS {schema}.row_table (
    only_one     TINYINT NOT NULL DEFAULT 1 PRIMARY KEY CHECK (only_one = 1),
    layout       VARCHAR(64) NOT NULL,
    table_schema VARCHAR(64) NOT NULL,
    table_name   VARCHAR(64) NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The subscription and its epoch. At most one row: a row of the table has only one state.
CREATE TABLE IF NOT EXISTS {schema}.subscriptions (
    {only_one}
    name             VARCHAR(255) NOT NULL PRIMARY KEY,
    epoch            BIGINT NOT NULL DEFAULT 0,
    -- Used by the default layout only; here the rows contain the progress.
    floor            BIGINT NOT NULL DEFAULT 0,
    done             VARCHAR(8) NOT NULL DEFAULT '0',
    highest_position BIGINT,
    highest_id       BINARY(16),
    trial            MEDIUMTEXT,                       -- ids of the rows on trial after a crash
    trial_deaths     BIGINT NOT NULL DEFAULT 0,
    clean            BOOLEAN NOT NULL DEFAULT TRUE,    -- whether the last owner released the lease cleanly
    paused           TEXT,                             -- why it is paused
    halted           TEXT,                             -- why it is halted
    history          VARCHAR(255),                     -- the server when it was created
    created_at       DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    updated_at       DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Notes about parked rows: state for which the table has no column.
CREATE TABLE IF NOT EXISTS {schema}.row_notes (
    row_id          {id_type} NOT NULL PRIMARY KEY,
    `key`           TEXT,
    destination     TEXT,
    state           VARCHAR(16) NOT NULL CHECK (state IN ('retry', 'held', 'dead', 'expired', 'unrouted')),
    attempts        BIGINT NOT NULL CHECK (attempts BETWEEN 0 AND 4294967295),
    next_attempt_at DATETIME(6),
    last_error      MEDIUMTEXT,
    parked_at       DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    updated_at      DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Rows that Postrider delivered, for retention and for tables that cannot show deliveries.
CREATE TABLE IF NOT EXISTS {schema}.row_done (
    row_id  {id_type} NOT NULL PRIMARY KEY,
    done_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    INDEX row_done_done_at (done_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Claims: rows that were marked together as being published. A row still carries the mark while it has the claim's time
-- and its count of attempts: [[id, count], ...].
CREATE TABLE IF NOT EXISTS {schema}.row_claims (
    number     BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    epoch      BIGINT NOT NULL,
    claimed_at DATETIME(6) NOT NULL,
    ids        JSON NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

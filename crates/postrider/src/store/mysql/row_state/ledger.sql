-- What Postrider itself has to remember about a table with a state per row. Runs on MySQL 8.0.16 and MariaDB 10.6 and
-- later, and may be run again where it broke off. Times are UTC.

-- Which table this is about; one row.
CREATE TABLE IF NOT EXISTS {schema}.row_table (
    only_one     TINYINT NOT NULL DEFAULT 1 PRIMARY KEY CHECK (only_one = 1),
    layout       VARCHAR(64) NOT NULL,
    table_schema VARCHAR(64) NOT NULL,
    table_name   VARCHAR(64) NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The subscription, and with whose right (epoch) it is worked. At most one row: a row of the table has one state.
CREATE TABLE IF NOT EXISTS {schema}.subscriptions (
    only_one         TINYINT NOT NULL DEFAULT 1 UNIQUE CHECK (only_one = 1),
    name             VARCHAR(255) NOT NULL PRIMARY KEY,
    epoch            BIGINT NOT NULL DEFAULT 0,
    -- Of the default layout; here progress is in the rows.
    floor            BIGINT NOT NULL DEFAULT 0,
    done             VARCHAR(8) NOT NULL DEFAULT '0',
    highest_position BIGINT,
    highest_id       BINARY(16),
    trial            MEDIUMTEXT,                       -- ids of the rows being tried after a crash
    trial_deaths     BIGINT NOT NULL DEFAULT 0,
    clean            BOOLEAN NOT NULL DEFAULT TRUE,    -- whether the last owner left in good order
    paused           TEXT,                             -- the operator's reason
    halted           TEXT,                             -- why it waits for an operator
    history          VARCHAR(255),                     -- the server at the start
    created_at       DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    updated_at       DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Who works it until when, on the database's clock.
CREATE TABLE IF NOT EXISTS {schema}.leases (
    name        VARCHAR(255) NOT NULL PRIMARY KEY,
    holder      VARCHAR(255) NOT NULL,
    epoch       BIGINT NOT NULL,
    acquired_at DATETIME(6) NOT NULL,
    expires_at  DATETIME(6) NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What relays say of themselves, for `postrider status`: nothing is decided by it.
CREATE TABLE IF NOT EXISTS {schema}.relays (
    subscription VARCHAR(255) NOT NULL,
    relay        VARCHAR(255) NOT NULL,
    leads        BOOLEAN NOT NULL,                     -- else it stands by
    down         MEDIUMTEXT,                           -- destinations that are down, as JSON
    seen_at      DATETIME(6) NOT NULL,
    expires_at   DATETIME(6) NOT NULL,
    PRIMARY KEY (subscription, relay)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Rows that left the straight way, and what the table has no column for.
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

-- Rows that were delivered, of a table that cannot say so itself.
CREATE TABLE IF NOT EXISTS {schema}.row_done (
    row_id  {id_type} NOT NULL PRIMARY KEY,
    done_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    INDEX row_done_done_at (done_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Batches that were marked as being published; a row is still ours while it carries the batch's time and the count that
-- it was given then: [[id, count], ...].
CREATE TABLE IF NOT EXISTS {schema}.row_claims (
    number     BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    epoch      BIGINT NOT NULL,
    claimed_at DATETIME(6) NOT NULL,
    ids        JSON NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

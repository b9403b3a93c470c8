-- The tables of leases and relays: the same for the default layout and for tables with a state per row.

-- The relay that owns each subscription, and until when, by the clock of the database. `session_lock` is the name of a
-- lock (GET_LOCK) that the owner's session holds: once no session holds it, the session is gone, and the lease with it.
CREATE TABLE IF NOT EXISTS {schema}.leases (
    name         VARCHAR(255) NOT NULL PRIMARY KEY,
    holder       VARCHAR(255) NOT NULL,
    epoch        BIGINT NOT NULL,
    acquired_at  DATETIME(6) NOT NULL,
    expires_at   DATETIME(6) NOT NULL,
    session_lock VARCHAR(64)                           -- NULL: only the time ends the lease
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Reports of relays about themselves, for `postrider status`. No decision depends on them.
CREATE TABLE IF NOT EXISTS {schema}.relays (
    subscription VARCHAR(255) NOT NULL,
    relay        VARCHAR(255) NOT NULL,
    leads        BOOLEAN NOT NULL,                     -- false: it is on standby
    down         MEDIUMTEXT,                           -- destinations that are down, as JSON
    seen_at      DATETIME(6) NOT NULL,
    expires_at   DATETIME(6) NOT NULL,
    PRIMARY KEY (subscription, relay)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

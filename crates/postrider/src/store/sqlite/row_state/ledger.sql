-- What Postrider itself has to remember about a table with a state per row, in the same file. Times are microseconds since
-- 1970, UTC. Runs on SQLite 3.37 and later.

-- Which table this is about; one row.
CREATE TABLE postrider_row_table (
    only_one   INTEGER PRIMARY KEY CHECK (only_one = 1),
    layout     TEXT NOT NULL,
    table_name TEXT NOT NULL
) STRICT;

-- The subscription, and with whose right (epoch) it is worked. At most one row: a row of the table has one state.
CREATE TABLE postrider_row_subscriptions (
    only_one         INTEGER NOT NULL DEFAULT 1 UNIQUE CHECK (only_one = 1),
    name             TEXT NOT NULL PRIMARY KEY,
    epoch            INTEGER NOT NULL DEFAULT 0,
    -- Of the default layout; here progress is in the rows.
    floor            INTEGER NOT NULL DEFAULT 0,
    done             TEXT NOT NULL DEFAULT '0',
    highest_position INTEGER,
    highest_id       TEXT,
    trial            TEXT,                        -- ids of the rows being tried after a crash
    trial_deaths     INTEGER NOT NULL DEFAULT 0,
    clean            INTEGER NOT NULL DEFAULT 1,  -- whether the last owner left in good order
    paused           TEXT,                        -- the operator's reason
    halted           TEXT,                        -- why it waits for an operator
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who works it until when, on this machine's clock.
CREATE TABLE postrider_row_leases (
    name        TEXT NOT NULL PRIMARY KEY,
    holder      TEXT NOT NULL,
    epoch       INTEGER NOT NULL,
    acquired_at INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What relays say of themselves, for `postrider status`: nothing is decided by it.
CREATE TABLE postrider_row_relays (
    subscription TEXT NOT NULL,
    relay        TEXT NOT NULL,
    leads        INTEGER NOT NULL,                -- else it stands by
    down         TEXT,                            -- destinations that are down, as JSON
    seen_at      INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    PRIMARY KEY (subscription, relay)
) STRICT, WITHOUT ROWID;

-- Rows that left the straight way, and what the table has no column for.
CREATE TABLE postrider_row_notes (
    row_id          TEXT NOT NULL PRIMARY KEY,
    key             TEXT,
    destination     TEXT,
    state           TEXT NOT NULL CHECK (state IN ('retry', 'held', 'dead', 'expired', 'unrouted')),
    attempts        INTEGER NOT NULL CHECK (attempts BETWEEN 0 AND 4294967295),
    next_attempt_at INTEGER,
    last_error      TEXT,
    parked_at       INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
) STRICT;

-- Rows that were delivered, of a table that cannot say so itself.
CREATE TABLE postrider_row_done (
    row_id  TEXT NOT NULL PRIMARY KEY,
    done_at INTEGER NOT NULL
) STRICT;
CREATE INDEX postrider_row_done_done_at ON postrider_row_done (done_at);

-- Batches that were marked as being published; a row is still ours while it carries the batch's time and the count that
-- it was given then: [[id, count], ...].
CREATE TABLE postrider_row_claims (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    epoch      INTEGER NOT NULL,
    claimed_at INTEGER NOT NULL,
    ids        TEXT NOT NULL
) STRICT;

-- Postrider's own tables for a table with a state per row, in the same file. Times are microseconds since 1970, UTC.
-- Runs on SQLite 3.37 and later.

-- The table with a state per row; one row.
CREATE TABLE postrider_row_table (
    only_one   INTEGER PRIMARY KEY CHECK (only_one = 1),
    layout     TEXT NOT NULL,
    table_name TEXT NOT NULL
) STRICT;

-- The subscription and its epoch. At most one row: a row of the table has only one state.
CREATE TABLE postrider_row_subscriptions (
    only_one         INTEGER NOT NULL DEFAULT 1 UNIQUE CHECK (only_one = 1),
    name             TEXT NOT NULL PRIMARY KEY,
    epoch            INTEGER NOT NULL DEFAULT 0,
    -- Used by the default layout only; here the rows contain the progress.
    floor            INTEGER NOT NULL DEFAULT 0,
    done             TEXT NOT NULL DEFAULT '0',
    highest_position INTEGER,
    highest_id       TEXT,
    trial            TEXT,                        -- ids of the rows on trial after a crash
    trial_deaths     INTEGER NOT NULL DEFAULT 0,
    clean            INTEGER NOT NULL DEFAULT 1,  -- whether the last owner released the lease cleanly
    paused           TEXT,                        -- why it is paused
    halted           TEXT,                        -- why it is halted
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The relay that owns the subscription, and until when, by the clock of this machine.
CREATE TABLE postrider_row_leases (
    name         TEXT NOT NULL PRIMARY KEY,
    holder       TEXT NOT NULL,
    epoch        INTEGER NOT NULL,
    acquired_at  INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    session_lock TEXT                   -- the end of the name of the file that the owner has locked
) STRICT, WITHOUT ROWID;

-- Reports of relays about themselves, for `postrider status`. No decision depends on them.
CREATE TABLE postrider_row_relays (
    subscription TEXT NOT NULL,
    relay        TEXT NOT NULL,
    leads        INTEGER NOT NULL,                -- false: it is on standby
    down         TEXT,                            -- destinations that are down, as JSON
    seen_at      INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    PRIMARY KEY (subscription, relay)
) STRICT, WITHOUT ROWID;

-- Notes about parked rows: state for which the table has no column.
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

-- Rows that Postrider delivered, for retention and for tables that cannot show deliveries.
CREATE TABLE postrider_row_done (
    row_id  TEXT NOT NULL PRIMARY KEY,
    done_at INTEGER NOT NULL
) STRICT;
CREATE INDEX postrider_row_done_done_at ON postrider_row_done (done_at);

-- Claims: rows that were marked together as being published. A row still carries the mark while it has the claim's time
-- and its count of attempts: [[id, count], ...].
CREATE TABLE postrider_row_claims (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    epoch      INTEGER NOT NULL,
    claimed_at INTEGER NOT NULL,
    ids        TEXT NOT NULL
) STRICT;

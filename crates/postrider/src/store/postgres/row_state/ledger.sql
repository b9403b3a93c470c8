-- Postrider's own tables for a table with a state per row. Runs on PostgreSQL 14 and later.

-- The table with a state per row; one row.
CREATE TABLE {schema}.row_table (
    only_one     boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    layout       text NOT NULL,
    table_schema text NOT NULL,
    table_name   text NOT NULL
);

-- The subscription and its epoch. At most one row: a row of the table has only one state.
CREATE TABLE {schema}.subscriptions (
    only_one     boolean NOT NULL DEFAULT true UNIQUE CHECK (only_one),
    name         text PRIMARY KEY,
    epoch        bigint NOT NULL DEFAULT 0,
    trial        text,                            -- ids of the rows on trial after a crash
    trial_deaths bigint NOT NULL DEFAULT 0,
    clean        boolean NOT NULL DEFAULT true,   -- whether the last owner released the lease cleanly
    paused       text,                            -- why it is paused
    halted       text,                            -- why it is halted
    history      text,                            -- the cluster and its timeline when it was created
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- Notes about parked rows: state for which the table has no column.
CREATE TABLE {schema}.row_notes (
    row_id          text PRIMARY KEY,
    key             text,
    destination     text,
    state           text NOT NULL CHECK (state IN ('retry', 'held', 'dead', 'expired', 'unrouted')),
    attempts        bigint NOT NULL CHECK (attempts BETWEEN 0 AND 4294967295),
    next_attempt_at timestamptz,
    last_error      text,
    parked_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Rows that Postrider delivered, for retention and for tables that cannot show deliveries.
CREATE TABLE {schema}.row_done (
    row_id  text PRIMARY KEY,
    done_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX row_done_done_at ON {schema}.row_done (done_at);

-- Claims: rows that were marked together as being published. A row still carries the mark while it has the claim's
-- time.
CREATE TABLE {schema}.row_claims (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    epoch      bigint NOT NULL,
    claimed_at timestamptz NOT NULL,
    ids        text[] NOT NULL
);

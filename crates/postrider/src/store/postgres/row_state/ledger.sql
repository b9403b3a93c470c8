-- What Postrider itself has to remember about a table with a state per row. Runs on PostgreSQL 14 and later.

-- Which table this is about; one row.
CREATE TABLE {schema}.row_table (
    only_one     boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    layout       text NOT NULL,
    table_schema text NOT NULL,
    table_name   text NOT NULL
);

-- The subscription, and with whose right (epoch) it is worked. At most one row: a row of the table has one state.
CREATE TABLE {schema}.subscriptions (
    only_one     boolean NOT NULL DEFAULT true UNIQUE CHECK (only_one),
    name         text PRIMARY KEY,
    epoch        bigint NOT NULL DEFAULT 0,
    trial        text,                            -- ids of the rows being tried after a crash
    trial_deaths bigint NOT NULL DEFAULT 0,
    clean        boolean NOT NULL DEFAULT true,   -- whether the last owner left in good order
    paused       text,                            -- the operator's reason
    halted       text,                            -- why it waits for an operator
    history      text,                            -- the cluster and its timeline at the start
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- Who works it until when, on the database's clock.
CREATE TABLE {schema}.leases (
    name        text PRIMARY KEY,
    holder      text NOT NULL,
    epoch       bigint NOT NULL,
    acquired_at timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
) WITH (fillfactor = 50);

-- What relays say of themselves, for `postrider status`: nothing is decided by it.
CREATE TABLE {schema}.relays (
    subscription text NOT NULL,
    relay        text NOT NULL,
    leads        boolean NOT NULL,                    -- else it stands by
    down         text,                                -- destinations that are down, as JSON
    seen_at      timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (subscription, relay)
) WITH (fillfactor = 50);

-- Rows that left the straight way, and what the table has no column for.
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

-- Rows that were delivered, of a table that cannot say so itself.
CREATE TABLE {schema}.row_done (
    row_id  text PRIMARY KEY,
    done_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX row_done_done_at ON {schema}.row_done (done_at);

-- Batches that were marked as being published; a row is still ours while it carries the batch's time.
CREATE TABLE {schema}.row_claims (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    epoch      bigint NOT NULL,
    claimed_at timestamptz NOT NULL,
    ids        text[] NOT NULL
);

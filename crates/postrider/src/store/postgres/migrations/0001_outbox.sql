-- The outbox and its ledger. Runs on PostgreSQL 14 and later. Functions and operators are named with
-- their schema, so that the search_path of the session has no effect.

-- Written with a plain INSERT; only type and payload are required. The CHECKs refuse values that a relay could not
-- read. Never supply tx or position: finding every event depends on both. PostgreSQL evaluates defaults in the order of
-- the columns, so a transaction that has a position already has a transaction id.
-- The position is the only index: each further one would slow down the writers.
CREATE TABLE {schema}.events (
    tx             xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id(),
    position       bigint GENERATED ALWAYS AS IDENTITY
                   (SEQUENCE NAME {schema}.events_position_seq START 1 INCREMENT 1 CACHE 1 NO CYCLE) PRIMARY KEY,
    -- The range of times in RFC 3339. An expiry may also be infinity, which is never.
    time           timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
                   CHECK (time >= '0001-01-01 00:00:00+00' AND time < '10000-01-01 00:00:00+00'),
    expires_at     timestamptz
                   CHECK (expires_at >= '0001-01-01 00:00:00+00'
                          AND (expires_at < '10000-01-01 00:00:00+00' OR expires_at = 'infinity')),
    max_attempts   bigint CHECK (max_attempts BETWEEN 1 AND 4294967295),
    -- By default a UUIDv7: 48 bits of milliseconds, the version, the rest random.
    id             uuid NOT NULL DEFAULT pg_catalog.encode(pg_catalog.set_bit(pg_catalog.set_bit(pg_catalog.overlay(
                       pg_catalog.uuid_send(pg_catalog.gen_random_uuid()),
                       pg_catalog.substring(pg_catalog.int8send(
                           (extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000)::bigint), 3),
                       1, 6), 52, 1), 53, 1), 'hex')::uuid,
    type           text NOT NULL CHECK (type <> ''),
    aggregate_type text,
    aggregate_id   text,
    -- Events with the same key are delivered in order. NULL: the aggregate's id.
    key            text,
    -- Delivered as the same bytes. bytea costs a third of jsonb.
    payload        bytea NOT NULL,
    -- An object of strings. json keeps the text; jsonb would parse and reformat it.
    headers        json CHECK (pg_catalog.json_typeof(headers) = 'object'),
    topic          text,
    -- An object: id (a UUID), name, params (any JSON), started and completed (microseconds).
    action         json CHECK (pg_catalog.json_typeof(action) = 'object')
                   CHECK ((action OPERATOR(pg_catalog.->>) 'id') OPERATOR(pg_catalog.~)
                          '^([0-9A-Fa-f]{32}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$'),
    namespace      text,
    producer       text,
    CHECK ((aggregate_type IS NULL) = (aggregate_id IS NULL))
);

-- One row per subscription: its progress, and the epoch of the relay that may change it.
CREATE TABLE {schema}.subscriptions (
    name             text PRIMARY KEY,
    epoch            bigint NOT NULL DEFAULT 0,
    floor            bigint NOT NULL DEFAULT 0,       -- all positions up to here are done
    done             text NOT NULL DEFAULT '0',       -- the floor and the done ranges above it: "40 43-50 52"
    highest_position bigint,                          -- the highest event seen; cleanup keeps that row
    highest_id       uuid,
    seen_tx          xid8,                            -- everything done was written by transactions below this
    trial            text,                            -- positions of the batch being tried after a crash: "41 42"
    trial_deaths     bigint NOT NULL DEFAULT 0,
    clean            boolean NOT NULL DEFAULT true,   -- whether the last owner released the lease cleanly
    paused           text,                            -- why it is paused
    halted           text,                            -- why it is halted
    history          text,                            -- the cluster and timeline that the progress belongs to
    created_at       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    updated_at       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CHECK ((highest_position IS NULL) = (highest_id IS NULL))
) WITH (fillfactor = 50);                             -- room for the next version of the row on its page

-- Events of each subscription that could not be delivered, or that wait behind such an event.
CREATE TABLE {schema}.parked (
    subscription    text NOT NULL,
    position        bigint NOT NULL,
    event_id        uuid,                             -- the event that was parked; another may get its position
    key             text,
    destination     text,
    state           text NOT NULL CHECK (state IN ('retry', 'behind', 'held', 'dead', 'expired', 'unrouted')),
    attempts        bigint NOT NULL CHECK (attempts BETWEEN 0 AND 4294967295),
    next_attempt_at timestamptz,
    last_error      text,
    parked_at       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (subscription, position)
);

-- A payload as text if it is UTF-8, otherwise in hex.
CREATE FUNCTION {schema}.payload_text(payload bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    RETURN pg_catalog.convert_from(payload, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN pg_catalog.encode(payload, 'hex');
END $$;

-- The outbox in readable form.
CREATE VIEW {schema}.events_json AS
SELECT position, id, type, aggregate_type, aggregate_id, coalesce(key, aggregate_id) AS key,
       {schema}.payload_text(payload) AS payload,
       headers, time, topic, max_attempts, expires_at, action, namespace, producer, tx
FROM ONLY {schema}.events;

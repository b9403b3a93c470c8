-- The outbox and its ledger. Runs on PostgreSQL 14 and later. What is called names its schema: it must not depend on
-- the search_path of who runs this.

-- Anyone with an INSERT statement may write here; type and payload are all it takes. The CHECKs refuse at
-- the writer what a relay could not read later. Never give tx or position: completeness rests on both. Defaults
-- are evaluated in the order of the columns, so whoever took a position has a transaction id already.
-- No index beyond the position: every one is paid by the writers.
CREATE TABLE {schema}.events (
    tx             xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id(),
    position       bigint GENERATED ALWAYS AS IDENTITY
                   (SEQUENCE NAME {schema}.events_position_seq START 1 INCREMENT 1 CACHE 1 NO CYCLE) PRIMARY KEY,
    -- Times are those that RFC 3339 can say. An expiry may also be infinity: never.
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
    -- What orders the event; NULL: the aggregate's id.
    key            text,
    -- Carried as the same bytes; bytea costs a third of what jsonb does.
    payload        bytea NOT NULL,
    -- An object of strings. json, not jsonb: it keeps the text and is not taken apart by the writer.
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

-- One row per subscription: how far it has come, and with whose right (epoch).
CREATE TABLE {schema}.subscriptions (
    name             text PRIMARY KEY,
    epoch            bigint NOT NULL DEFAULT 0,
    floor            bigint NOT NULL DEFAULT 0,       -- all positions up to here are done
    done             text NOT NULL DEFAULT '0',       -- the floor and the done ranges above it: "40 43-50 52"
    highest_position bigint,                          -- the highest event seen; cleanup keeps that row
    highest_id       uuid,
    seen_tx          xid8,                            -- whatever is done was written by transactions below this
    trial            text,                            -- positions of the batch being tried after a crash: "41 42"
    trial_deaths     bigint NOT NULL DEFAULT 0,
    clean            boolean NOT NULL DEFAULT true,   -- whether the last owner left in good order
    paused           text,                            -- the operator's reason
    halted           text,                            -- why it waits for an operator
    history          text,                            -- the cluster and its timeline that the progress is about
    created_at       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    updated_at       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CHECK ((highest_position IS NULL) = (highest_id IS NULL))
) WITH (fillfactor = 50);                             -- room for the next version of the row next to it

-- Events that left the straight way, per subscription.
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

-- A payload for people: as text where it is text, else in hex.
CREATE FUNCTION {schema}.payload_text(payload bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    RETURN pg_catalog.convert_from(payload, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN pg_catalog.encode(payload, 'hex');
END $$;

-- The outbox for people.
CREATE VIEW {schema}.events_json AS
SELECT position, id, type, aggregate_type, aggregate_id, coalesce(key, aggregate_id) AS key,
       {schema}.payload_text(payload) AS payload,
       headers, time, topic, max_attempts, expires_at, action, namespace, producer, tx
FROM ONLY {schema}.events;

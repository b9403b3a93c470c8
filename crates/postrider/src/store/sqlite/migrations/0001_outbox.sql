-- The outbox and its ledger. Times are microseconds since 1970, UTC. Runs on SQLite 3.37 and later.

-- Written with a plain INSERT; only type and payload are required. STRICT and the CHECKs refuse values that a relay
-- could not read. Never supply a position: order, and finding every event, depend on AUTOINCREMENT.
-- The position is the only index: each further one would slow down the writers.
CREATE TABLE postrider_events (
    position       INTEGER PRIMARY KEY AUTOINCREMENT,
    -- A UUID as text in any case, or as 16 bytes. By default a UUIDv7: 48 bits of milliseconds, the rest random.
    -- julianday instead of unixepoch('subsec'), which needs 3.42.
    id             ANY NOT NULL DEFAULT (printf('%08x-%04x-7%03x-%04x-%012x',
                       CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) >> 16,
                       CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) & 0xffff,
                       random() & 0xfff,
                       0x8000 | (random() & 0x3fff),
                       random() & 0xffffffffffff))
                   CHECK (CASE typeof(id)
                              WHEN 'blob' THEN length(id) = 16
                              WHEN 'text' THEN id GLOB '????????-????-????-????-????????????'
                                               AND length(replace(id, '-', '')) = 32
                                               AND id NOT GLOB '*[^-0-9a-fA-F]*'
                              ELSE 0
                          END),
    type           TEXT NOT NULL CHECK (type <> ''),
    aggregate_type TEXT,
    aggregate_id   TEXT,
    -- Events with the same key are delivered in order. NULL: the aggregate's id.
    key            TEXT,
    -- Text or bytes, delivered unchanged.
    payload        ANY NOT NULL CHECK (typeof(payload) IN ('text', 'blob')),
    -- A JSON object of strings.
    headers        TEXT CHECK (headers IS NULL OR (json_valid(headers) AND json_type(headers) = 'object')),
    time           INTEGER NOT NULL
                   DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000),
    topic          TEXT,
    max_attempts   INTEGER CHECK (max_attempts BETWEEN 1 AND 4294967295),
    expires_at     INTEGER,
    -- A JSON object: id, name, params (any JSON), started and completed (microseconds).
    action         TEXT CHECK (action IS NULL OR (json_valid(action) AND json_type(action) = 'object')),
    namespace      TEXT,
    producer       TEXT,
    CHECK ((aggregate_type IS NULL) = (aggregate_id IS NULL))
) STRICT;

-- One row per subscription: its progress, and the epoch of the relay that may change it.
CREATE TABLE postrider_subscriptions (
    name             TEXT NOT NULL PRIMARY KEY,
    epoch            INTEGER NOT NULL DEFAULT 0,
    floor            INTEGER NOT NULL,            -- all positions up to here are done
    done             TEXT NOT NULL,               -- the floor and the done ranges above it: "40 43-50 52"
    highest_position INTEGER,                     -- the highest event seen; cleanup keeps that row
    highest_id       TEXT,
    trial            TEXT,                        -- positions of the batch being tried after a crash: "41 42"
    trial_deaths     INTEGER NOT NULL DEFAULT 0,
    clean            INTEGER NOT NULL DEFAULT 1,  -- whether the last owner released the lease cleanly
    paused           TEXT,                        -- why it is paused
    halted           TEXT,                        -- why it is halted
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    CHECK ((highest_position IS NULL) = (highest_id IS NULL))
) STRICT, WITHOUT ROWID;

-- Events of each subscription that could not be delivered, or that wait behind such an event.
CREATE TABLE postrider_parked (
    subscription    TEXT NOT NULL,
    position        INTEGER NOT NULL,
    event_id        ANY,                          -- the event that was parked; another may get its position
    key             TEXT,
    destination     TEXT,
    state           TEXT NOT NULL CHECK (state IN ('retry', 'behind', 'held', 'dead', 'expired', 'unrouted')),
    attempts        INTEGER NOT NULL CHECK (attempts BETWEEN 0 AND 4294967295),
    next_attempt_at INTEGER,
    last_error      TEXT,
    parked_at       INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    PRIMARY KEY (subscription, position)
) STRICT, WITHOUT ROWID;

-- The relay that owns each subscription, and until when, by the clock of this machine.
CREATE TABLE postrider_leases (
    name         TEXT NOT NULL PRIMARY KEY,
    holder       TEXT NOT NULL,
    epoch        INTEGER NOT NULL,
    acquired_at  INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    session_lock TEXT                   -- the end of the name of the file that the owner has locked
) STRICT, WITHOUT ROWID;

-- Reports of relays about themselves, for `postrider status`. No decision depends on them.
CREATE TABLE postrider_relays (
    subscription TEXT NOT NULL,
    relay        TEXT NOT NULL,
    leads        INTEGER NOT NULL,                -- false: it is on standby
    down         TEXT,                            -- destinations that are down, as JSON
    seen_at      INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    PRIMARY KEY (subscription, relay)
) STRICT, WITHOUT ROWID;

-- The outbox in readable form: ids in one form, times in ISO 8601, the payload as text if it is JSON, otherwise in hex.
CREATE VIEW postrider_events_json AS
SELECT position,
       CASE typeof(id)
           WHEN 'text' THEN lower(id)
           ELSE lower(printf('%s-%s-%s-%s-%s', substr(hex(id), 1, 8), substr(hex(id), 9, 4), substr(hex(id), 13, 4),
                             substr(hex(id), 17, 4), substr(hex(id), 21)))
       END AS id,
       type,
       aggregate_type,
       aggregate_id,
       coalesce(key, aggregate_id) AS key,
       CASE WHEN json_valid(CAST(payload AS TEXT)) THEN CAST(payload AS TEXT) ELSE hex(payload) END AS payload,
       headers,
       -- The remainder is made positive, so that the seconds are right before 1970 too.
       strftime('%Y-%m-%dT%H:%M:%S', (time - (time % 1000000 + 1000000) % 1000000) / 1000000, 'unixepoch')
           || printf('.%06dZ', (time % 1000000 + 1000000) % 1000000) AS time,
       topic,
       max_attempts,
       strftime('%Y-%m-%dT%H:%M:%S', (expires_at - (expires_at % 1000000 + 1000000) % 1000000) / 1000000, 'unixepoch')
           || printf('.%06dZ', (expires_at % 1000000 + 1000000) % 1000000) AS expires_at,
       action,
       namespace,
       producer
FROM postrider_events;

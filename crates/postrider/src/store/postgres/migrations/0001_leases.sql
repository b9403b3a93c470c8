-- The tables of leases and relays: the same for the default layout and for tables with a state per row.

-- The relay that owns each subscription, and until when, by the clock of the database. `session_lock` is the key of an
-- advisory lock that the owner's session holds: once no session holds it, the session is gone, and the lease with it.
CREATE TABLE {schema}.leases (
    name         text PRIMARY KEY,
    holder       text NOT NULL,
    epoch        bigint NOT NULL,
    acquired_at  timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    session_lock bigint                               -- NULL: only the time ends the lease
) WITH (fillfactor = 50);

-- Reports of relays about themselves, for `postrider status`. No decision depends on them.
CREATE TABLE {schema}.relays (
    subscription text NOT NULL,
    relay        text NOT NULL,
    leads        boolean NOT NULL,                    -- false: it is on standby
    down         text,                                -- destinations that are down, as JSON
    seen_at      timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (subscription, relay)
) WITH (fillfactor = 50);

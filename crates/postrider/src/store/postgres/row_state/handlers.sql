-- The handlers of layout eventlog. Other layouts do not use these tables.

-- With notifications, each handler is a subscription.
ALTER TABLE {schema}.subscriptions DROP COLUMN only_one;

-- Which events are fanned out to which handler. Only an operator removes a row.
CREATE TABLE {schema}.handler_types (
    handler       text NOT NULL,
    event_type    text NOT NULL,            -- '*' matches any text
    since         timestamptz,              -- older events are not fanned out to the handler
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    searched_at   timestamptz,              -- when the last search for missed events began
    PRIMARY KEY (handler, event_type)
);

-- Earlier names of handlers.
CREATE TABLE {schema}.handler_aliases (
    alias   text PRIMARY KEY,
    handler text NOT NULL
);

-- Locked by a fan-out and by a registration; one row.
CREATE TABLE {schema}.fan_out (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one)
);
INSERT INTO {schema}.fan_out DEFAULT VALUES;

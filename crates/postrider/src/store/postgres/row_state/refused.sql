-- Rows whose outcome their table refuses to record, by a CHECK, a trigger or a rule. The reason stands in row_notes.
CREATE TABLE {schema}.row_refused (
    row_id     text PRIMARY KEY,
    outcome    text NOT NULL CHECK (outcome IN ('delivered', 'given up')),
    refused_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

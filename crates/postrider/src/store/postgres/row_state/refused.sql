-- Rows whose outcome the table refuses to record, because of a CHECK, a trigger or a rule. The reason is in row_notes.
CREATE TABLE {schema}.row_refused (
    row_id     text PRIMARY KEY,
    outcome    text NOT NULL CHECK (outcome IN ('delivered', 'given up')),
    refused_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

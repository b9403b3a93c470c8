-- Rows whose outcome their table refuses to record, by a CHECK or a trigger. The reason stands in postrider_row_notes.
CREATE TABLE postrider_row_refused (
    row_id     TEXT NOT NULL PRIMARY KEY,
    outcome    TEXT NOT NULL CHECK (outcome IN ('delivered', 'given up')),
    refused_at INTEGER NOT NULL
) STRICT;

-- Rows whose outcome the table refuses to record, because of a CHECK or a trigger. The reason is in
-- postrider_row_notes.
CREATE TABLE postrider_row_refused (
    row_id     TEXT NOT NULL PRIMARY KEY,
    outcome    TEXT NOT NULL CHECK (outcome IN ('delivered', 'given up')),
    refused_at INTEGER NOT NULL
) STRICT;

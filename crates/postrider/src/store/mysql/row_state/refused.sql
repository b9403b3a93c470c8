-- Rows whose outcome the table refuses to record, because of a CHECK or a trigger. The reason is in row_notes.
CREATE TABLE IF NOT EXISTS {schema}.row_refused (
    row_id     {id_type} NOT NULL PRIMARY KEY,
    outcome    VARCHAR(16) NOT NULL CHECK (outcome IN ('delivered', 'given up')),
    refused_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Rows whose outcome their table refuses to record, by a CHECK or a trigger. The reason stands in row_notes.
CREATE TABLE IF NOT EXISTS {schema}.row_refused (
    row_id     {id_type} NOT NULL PRIMARY KEY,
    outcome    VARCHAR(16) NOT NULL CHECK (outcome IN ('delivered', 'given up')),
    refused_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

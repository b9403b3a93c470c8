-- Changes made by operators. Rows are only inserted: one per batch, in the transaction of the change. A command has several
-- rows if it changed many events. Its id is a UUIDv7, so commands are ordered by time.
CREATE TABLE IF NOT EXISTS {schema}.audit (
    command      BINARY(16) NOT NULL,
    part         BIGINT NOT NULL,
    made_at      DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    made_by      TEXT NOT NULL,                        -- user and host of the program
    db_user      VARCHAR(255) NOT NULL,
    action       VARCHAR(64) NOT NULL,
    subscription VARCHAR(255),
    selection    TEXT NOT NULL,                        -- the filter
    events       BIGINT NOT NULL,                      -- how many events this row changed
    targets      MEDIUMTEXT NOT NULL,                  -- their positions or row ids: "41 43-50"
    reason       TEXT,
    PRIMARY KEY (command, part)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Changes made by operators. Rows are only inserted: one per batch, in the transaction of the change. A command has several
-- rows if it changed many events. Its id is a UUIDv7, so commands are ordered by time. Two outboxes in one file share it.
CREATE TABLE IF NOT EXISTS postrider_audit (
    command      TEXT NOT NULL,
    part         INTEGER NOT NULL,
    made_at      INTEGER NOT NULL,
    made_by      TEXT NOT NULL,                        -- user and host of the program
    db_user      TEXT NOT NULL,
    action       TEXT NOT NULL,
    subscription TEXT,
    selection    TEXT NOT NULL,                        -- the filter
    events       INTEGER NOT NULL,                     -- how many events this row changed
    targets      TEXT NOT NULL,                        -- their positions or row ids: "41 43-50"
    reason       TEXT,
    PRIMARY KEY (command, part)
) STRICT, WITHOUT ROWID;

-- Changes made by operators. Rows are only inserted: one per batch, in the transaction of the change. A command has several
-- rows if it changed many events. Its id is a UUIDv7, so commands are ordered by time.
CREATE TABLE {schema}.audit (
    command      uuid NOT NULL,
    part         bigint NOT NULL,
    made_at      timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    made_by      text NOT NULL,                        -- user and host of the program
    db_user      text NOT NULL DEFAULT session_user,
    action       text NOT NULL,
    subscription text,
    selection    text NOT NULL,                        -- the filter
    events       bigint NOT NULL,                      -- how many events this row changed
    targets      text NOT NULL,                        -- their positions or row ids: "41 43-50"
    reason       text,
    PRIMARY KEY (command, part)
);

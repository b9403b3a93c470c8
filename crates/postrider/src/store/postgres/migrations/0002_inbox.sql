-- The inbox: which events each consumer group has processed. A consumer inserts its row first, in the transaction of the
-- effect; a row that exists already is a duplicate. Rows are deleted after expires_at, by the relay or by the consumer.
CREATE TABLE {schema}.inbox (
    consumer_group text NOT NULL
                   CHECK (consumer_group <> '' AND pg_catalog.octet_length(consumer_group) OPERATOR(pg_catalog.<=) 255),
    event_id       uuid NOT NULL,
    processed_at   timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    expires_at     timestamptz NOT NULL
                   DEFAULT pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) interval '30 days',
    PRIMARY KEY (consumer_group, event_id)
);
CREATE INDEX inbox_expires_at ON {schema}.inbox (expires_at);

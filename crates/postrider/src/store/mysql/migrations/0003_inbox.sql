-- The inbox: which events each consumer group has processed. A consumer inserts its row first, in the transaction of the
-- effect; a row that exists already is a duplicate. Rows are deleted after expires_at, by the relay or by the consumer.
-- Groups are compared as utf8mb4_bin, which ignores spaces at the end: the library refuses such names.
CREATE TABLE IF NOT EXISTS {schema}.inbox (
    consumer_group VARCHAR(255) NOT NULL CHECK (consumer_group <> ''),
    event_id       BINARY(16) NOT NULL,
    processed_at   DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    expires_at     DATETIME(6) NOT NULL DEFAULT (TIMESTAMPADD(DAY, 30, UTC_TIMESTAMP(6))),
    PRIMARY KEY (consumer_group, event_id),
    KEY inbox_expires_at (expires_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

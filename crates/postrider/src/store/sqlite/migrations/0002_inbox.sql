-- The inbox: which events each consumer group has processed. A consumer inserts its row first, in the transaction of the
-- effect; a row that exists already is a duplicate. Rows are deleted after expires_at, by the relay or by the consumer.
-- An id has one form only, a UUID in lower case: two forms of one id would be two rows. Two outboxes in one file share it.
CREATE TABLE IF NOT EXISTS postrider_inbox (
    consumer_group TEXT NOT NULL CHECK (consumer_group <> ''),
    event_id       TEXT NOT NULL CHECK (event_id GLOB '????????-????-????-????-????????????'
                                        AND length(replace(event_id, '-', '')) = 32
                                        AND event_id NOT GLOB '*[^-0-9a-f]*'),
    processed_at   INTEGER NOT NULL
                   DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000),
    expires_at     INTEGER NOT NULL
                   DEFAULT (CAST(round((julianday('now') - 2440557.5) * 86400000) AS INTEGER) * 1000),
    PRIMARY KEY (consumer_group, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS postrider_inbox_expires_at ON postrider_inbox (expires_at);

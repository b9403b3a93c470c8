-- Layout outbox: the events that consumers have processed.
CREATE TABLE {processed} (
    event_id       UUID PRIMARY KEY,
    consumer_group VARCHAR(100) NOT NULL,
    processed_at   TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    expires_at     TIMESTAMPTZ NOT NULL DEFAULT (NOW() + INTERVAL '24 hours')
);
CREATE INDEX idx_processed_events_consumer ON {processed} (consumer_group);
CREATE INDEX idx_processed_events_expires ON {processed} (expires_at);

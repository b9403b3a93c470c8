-- Layout outbox: events with a topic and a limit of retries.
CREATE TABLE {table} (
    id             UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    aggregate_type VARCHAR(100) NOT NULL,
    aggregate_id   UUID NOT NULL,
    event_type     VARCHAR(100) NOT NULL,
    topic          VARCHAR(100) NOT NULL,
    partition_key  VARCHAR(100),
    payload        JSONB NOT NULL,
    headers        JSONB DEFAULT '{}',
    status         VARCHAR(20) NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'published', 'failed')),
    retry_count    SMALLINT NOT NULL DEFAULT 0,
    max_retries    SMALLINT NOT NULL DEFAULT 5,
    published_at   TIMESTAMPTZ,
    expires_at     TIMESTAMPTZ NOT NULL DEFAULT (NOW() + INTERVAL '24 hours'),
    created_at     TIMESTAMPTZ NOT NULL DEFAULT NOW()
);
CREATE INDEX "idx_{name}_status_created" ON {table} (status, created_at) WHERE status = 'pending';
CREATE INDEX "idx_{name}_aggregate" ON {table} (aggregate_type, aggregate_id);
CREATE INDEX "idx_{name}_expires" ON {table} (expires_at) WHERE status = 'published';

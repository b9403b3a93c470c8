-- Layout outbox_events: events with a state for rows that are being published.
CREATE TABLE {table} (
    id              BIGINT AUTO_INCREMENT PRIMARY KEY,
    aggregate_type  VARCHAR(255) NOT NULL,
    aggregate_id    VARCHAR(255) NOT NULL,
    event_type      VARCHAR(255) NOT NULL,
    payload         JSON NOT NULL,
    status          VARCHAR(50) NOT NULL DEFAULT 'PENDING',
    created_at      TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    last_attempt_at TIMESTAMP NULL DEFAULT NULL,
    attempt_count   INT NOT NULL DEFAULT 0,
    CONSTRAINT `{check}` CHECK (status IN ('PENDING', 'PUBLISHING', 'PUBLISHED', 'FAILED')),
    INDEX `idx_{name}_status_created_at` (status, created_at)
) ENGINE = InnoDB;

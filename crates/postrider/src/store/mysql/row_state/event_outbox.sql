-- Layout event_outbox: domain events that wait to be published. Times are UTC.
CREATE TABLE {table} (
    id              BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    event_key       CHAR(36) NOT NULL,
    entity_table    VARCHAR(64) NOT NULL,
    entity_pk       VARCHAR(64) NOT NULL,
    event_type      VARCHAR(100) NOT NULL,
    payload         JSON NOT NULL,
    status          ENUM('pending', 'sent', 'failed') NOT NULL DEFAULT 'pending',
    attempts        INT NOT NULL DEFAULT 0,
    next_attempt_at DATETIME(6) NULL,
    processed_at    DATETIME(6) NULL,
    producer_node   VARCHAR(100) NULL,
    created_at      DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    UNIQUE KEY `uq_{name}_key` (event_key),
    INDEX `idx_{name}_created_at` (created_at),
    INDEX `idx_{name}_entity_time` (entity_table, entity_pk, created_at),
    INDEX `idx_{name}_status_sched` (status, next_attempt_at)
) ENGINE = InnoDB;

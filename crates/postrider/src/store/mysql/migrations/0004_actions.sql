-- Records of actions that no event row carries: actions without events, and all actions where the events have no column for
-- them. The executor of actions inserts a row in the transaction of the change; only the application deletes them.
CREATE TABLE IF NOT EXISTS {schema}.actions (
    id           BINARY(16) NOT NULL PRIMARY KEY,
    namespace    VARCHAR(255) NOT NULL,
    name         VARCHAR(255) NOT NULL,
    params       JSON NOT NULL,
    principal    VARCHAR(255),
    started_at   DATETIME(6) NOT NULL,
    completed_at DATETIME(6) NOT NULL,
    event_ids    JSON NOT NULL,
    KEY actions_completed_at (completed_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

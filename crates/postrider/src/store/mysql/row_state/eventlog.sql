-- Layout eventlog: every event with the action that caused it. A row without an event type records an action without
-- events. Times are UTC. MySQL reads the types in comments with a number, MariaDB those with an M.
CREATE TABLE {table} (
    id              /*!80000 CHAR(36) CHARACTER SET ascii */ /*M! UUID */ NOT NULL PRIMARY KEY,
    namespace       VARCHAR(255) NOT NULL,
    action_id       /*!80000 CHAR(36) CHARACTER SET ascii */ /*M! UUID */ NOT NULL,
    action_name     VARCHAR(255) NOT NULL,
    action_params   JSON         NOT NULL,
    started_date    DATETIME(6)  NOT NULL,
    completion_date DATETIME(6)  NOT NULL,
    model_id        VARCHAR(255) NULL,
    model_type      VARCHAR(255) NULL,
    event_type      VARCHAR(255) NULL,
    payload         JSON         NULL,
    event_date      DATETIME(6)  NOT NULL,
    delivered       BOOLEAN      NOT NULL,
    INDEX `idx_{name}_action_id` (action_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4;

-- Layout eventlog: one row per event and handler.
CREATE TABLE {notifications} (
    id              /*!80000 CHAR(36) CHARACTER SET ascii */ /*M! UUID */ NOT NULL PRIMARY KEY,
    event_id        /*!80000 CHAR(36) CHARACTER SET ascii */ /*M! UUID */ NOT NULL,
    handler_name    VARCHAR(255) NOT NULL,
    namespace       VARCHAR(255) NOT NULL,
    action_id       /*!80000 CHAR(36) CHARACTER SET ascii */ /*M! UUID */ NOT NULL,
    action_name     VARCHAR(255) NOT NULL,
    action_params   JSON         NOT NULL,
    started_date    DATETIME(6)  NOT NULL,
    completion_date DATETIME(6)  NOT NULL,
    model_id        VARCHAR(255) NULL,
    model_type      VARCHAR(255) NULL,
    event_type      VARCHAR(255) NOT NULL,
    payload         JSON         NULL,
    event_date      DATETIME(6)  NOT NULL,
    state           VARCHAR(24)  NOT NULL,
    attempts        INT          NOT NULL DEFAULT 0,
    next_retry_at   DATETIME(6)  NOT NULL,
    created_date    DATETIME(6)  NOT NULL,
    updated_date    DATETIME(6)  NOT NULL,
    UNIQUE KEY event_id (event_id, handler_name),
    INDEX event_notifications_due (state, next_retry_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4;

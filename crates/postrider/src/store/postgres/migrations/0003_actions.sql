-- Records of actions that no event row carries: actions without events, and all actions where the events have no column for
-- them. The executor of actions inserts a row in the transaction of the change; only the application deletes them.
CREATE TABLE {schema}.actions (
    id           uuid PRIMARY KEY,
    namespace    text NOT NULL,
    name         text NOT NULL,
    params       json NOT NULL,
    principal    text,
    started_at   timestamptz NOT NULL,
    completed_at timestamptz NOT NULL,
    event_ids    json NOT NULL
);
CREATE INDEX actions_completed_at ON {schema}.actions (completed_at);

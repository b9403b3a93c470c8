-- Records of actions that no event row carries: actions without events, and all actions where the events have no column for
-- them. The executor of actions inserts a row in the transaction of the change; only the application deletes them. Two
-- outboxes in one file share it.
CREATE TABLE IF NOT EXISTS postrider_actions (
    id           TEXT NOT NULL PRIMARY KEY,
    namespace    TEXT NOT NULL,
    name         TEXT NOT NULL,
    params       TEXT NOT NULL,
    principal    TEXT,
    started_at   INTEGER NOT NULL,
    completed_at INTEGER NOT NULL,
    event_ids    TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS postrider_actions_completed_at ON postrider_actions (completed_at);

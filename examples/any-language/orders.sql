-- The application's own table, in PostgreSQL and in SQLite.
CREATE TABLE orders (
    id      BIGINT PRIMARY KEY,
    version BIGINT NOT NULL DEFAULT 0
);

-- The application's own table, in every database.
CREATE TABLE orders (
    id      BIGINT PRIMARY KEY,
    version BIGINT NOT NULL DEFAULT 0
);

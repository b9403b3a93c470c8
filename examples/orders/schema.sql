-- The tables of the service. Those of Postrider are created by `PostgresStore::migrate`, or by `postrider migrate up`.
CREATE TABLE IF NOT EXISTS orders (
    id       uuid   PRIMARY KEY,
    customer text   NOT NULL,
    cents    bigint NOT NULL,
    version  bigint NOT NULL
);
-- What the handler did. Nothing here prevents a second confirmation of an order: the inbox does.
CREATE TABLE IF NOT EXISTS confirmations (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id uuid   NOT NULL,
    customer text   NOT NULL
);

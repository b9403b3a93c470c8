-- The tables of the service. {uuid} is the type of an id: BLOB on SQLite, uuid on PostgreSQL, BINARY(16) on MySQL and MariaDB.
CREATE TABLE wallets (id {uuid} NOT NULL PRIMARY KEY, balance BIGINT NOT NULL, version BIGINT NOT NULL);
CREATE TABLE orders (id {uuid} NOT NULL PRIMARY KEY, wallet_id {uuid} NOT NULL, amount BIGINT NOT NULL,
                     status VARCHAR(20) NOT NULL, version BIGINT NOT NULL);

-- The tables of the bank, in every shard.
CREATE TABLE IF NOT EXISTS accounts (id BLOB NOT NULL PRIMARY KEY, owner TEXT NOT NULL, balance INTEGER NOT NULL,
                                     is_open INTEGER NOT NULL, version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS transfers (id BLOB NOT NULL PRIMARY KEY, payer BLOB NOT NULL, payee BLOB NOT NULL,
                                      amount INTEGER NOT NULL, state TEXT NOT NULL, version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS receipts (id BLOB NOT NULL PRIMARY KEY, transfer BLOB NOT NULL, is_accepted INTEGER NOT NULL,
                                     version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS letters (id BLOB NOT NULL PRIMARY KEY, version INTEGER NOT NULL);

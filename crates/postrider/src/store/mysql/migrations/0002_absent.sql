-- Positions that a subscription has settled as empty. A row that turns up at one of them was never delivered: somebody chose
-- its position. Relays and `doctor` look for such rows.
CREATE TABLE IF NOT EXISTS {schema}.absent (
    subscription VARCHAR(255) NOT NULL PRIMARY KEY,
    ranges       LONGTEXT NOT NULL,                   -- both ends included, the newest: "1-40 43 50-52"
    updated_at   DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What only the relay knows: its version, its rate, what it has in memory, its last error. JSON with a limited length. MySQL
-- has no ADD COLUMN IF NOT EXISTS, and an interrupted migration is run again.
USE {schema};
SET @postrider_alter = IF((SELECT COUNT(*) FROM information_schema.columns
                           WHERE table_schema = DATABASE() AND table_name = 'relays' AND column_name = 'facts') = 0,
                          'ALTER TABLE relays ADD COLUMN facts MEDIUMTEXT', 'DO 0');
PREPARE postrider_alter FROM @postrider_alter;
EXECUTE postrider_alter;
DEALLOCATE PREPARE postrider_alter;

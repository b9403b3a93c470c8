-- How often operators changed rows: a relay that leads loads its state again when this number changes. MySQL has no ADD
-- COLUMN IF NOT EXISTS, and an interrupted migration is run again.
USE {schema};
SET @postrider_alter = IF((SELECT COUNT(*) FROM information_schema.columns
                           WHERE table_schema = DATABASE() AND table_name = 'subscriptions'
                             AND column_name = 'changes') = 0,
                          'ALTER TABLE subscriptions ADD COLUMN changes BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE postrider_alter FROM @postrider_alter;
EXECUTE postrider_alter;
DEALLOCATE PREPARE postrider_alter;

-- What an operator asked for: `retry` for an event that was dead, `replay` for one that was delivered before. MySQL has no
-- ADD COLUMN IF NOT EXISTS, and an interrupted migration is run again.
SET @postrider_alter = IF((SELECT COUNT(*) FROM information_schema.columns
                           WHERE table_schema = DATABASE() AND table_name = 'parked' AND column_name = 'redelivery') = 0,
                          'ALTER TABLE parked ADD COLUMN redelivery VARCHAR(16)', 'DO 0');
PREPARE postrider_alter FROM @postrider_alter;
EXECUTE postrider_alter;
DEALLOCATE PREPARE postrider_alter;

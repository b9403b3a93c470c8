-- How often operators changed rows: a relay that leads loads its state again when this number changes.
ALTER TABLE postrider_row_subscriptions ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;

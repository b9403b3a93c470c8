-- How often operators changed rows: a relay that leads loads its state again when this number changes.
ALTER TABLE {schema}.subscriptions ADD COLUMN changes bigint NOT NULL DEFAULT 0;

CREATE INDEX "idx_{name}_aggregate" ON {table} (aggregate_type, aggregate_id);

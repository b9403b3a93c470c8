-- Roles of an outbox, each with only the rights it needs. Run it after `migrate up`, and again after every update, as a
-- superuser or as the owner of the schema with CREATEROLE. It is safe to run again.
{create_roles}

-- No role keeps a right that is not granted below.
REVOKE ALL ON SCHEMA {schema} FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM PUBLIC, {writer}, {relay}, {inbox}, {viewer}, {operator};
GRANT USAGE ON SCHEMA {schema} TO {writer}, {relay}, {inbox}, {viewer}, {operator};

-- Writer: the application. It may insert every column except tx and position, on which completeness depends. It may read
-- the id and position of its events (RETURNING), and nothing else: no payload, no progress.
GRANT INSERT ({columns})
    ON {schema}.events TO {writer};
GRANT SELECT (id, position) ON {schema}.events TO {writer};
GRANT INSERT ON {schema}.actions TO {writer};

-- Relay: reads events, deletes delivered events after the retention, never inserts or updates one; records the progress.
-- It reads the open transactions in pg_locks, which every user may. To let it see which of them are idle, so that a
-- transaction left open for hours delays no other events, a superuser may GRANT pg_read_all_stats TO {relay}.
GRANT SELECT, DELETE ON {schema}.events TO {relay};
GRANT SELECT ON {schema}.events_position_seq, {schema}.migrations TO {relay};
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.subscriptions, {schema}.parked, {schema}.leases,
                                        {schema}.relays TO {relay};
GRANT SELECT, DELETE ON {schema}.inbox, {schema}.actions TO {relay};
GRANT SELECT, INSERT ON {schema}.audit TO {relay};

-- Inbox: the consumer. It inserts the rows of its events, finds the key of a duplicate, and deletes what has expired. It
-- cannot change a row. If it also writes events, GRANT {writer} as well.
GRANT SELECT, INSERT, DELETE ON {schema}.inbox TO {inbox};

-- Viewer: `status` and `doctor`. To let `doctor` see the transactions of other users, a superuser may
-- GRANT pg_read_all_stats TO {viewer}.
GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {viewer};
GRANT SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {viewer};

-- Operator: `status`, `explain`, `dead`, `parked`, `replay`, `pause` and `resume`. It changes parked events and inserts audit
-- rows; it can neither write nor delete an event, nor change the audit trail. `accept-history` and `cleanup` need the relay's
-- role.
GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {operator};
GRANT SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {operator};
GRANT UPDATE ON {schema}.subscriptions TO {operator};
GRANT INSERT, UPDATE, DELETE ON {schema}.parked TO {operator};
GRANT INSERT ON {schema}.audit TO {operator};

-- Migrator: owns all of it. Run `migrate up` with this role: ?options=-c%20role%3D{migrator_name}
ALTER SCHEMA {schema} OWNER TO {migrator};
ALTER TABLE {schema}.migrations OWNER TO {migrator};
ALTER TABLE {schema}.events OWNER TO {migrator};
ALTER TABLE {schema}.subscriptions OWNER TO {migrator};
ALTER TABLE {schema}.parked OWNER TO {migrator};
ALTER TABLE {schema}.leases OWNER TO {migrator};
ALTER TABLE {schema}.relays OWNER TO {migrator};
ALTER TABLE {schema}.inbox OWNER TO {migrator};
ALTER TABLE {schema}.actions OWNER TO {migrator};
ALTER TABLE {schema}.audit OWNER TO {migrator};
ALTER VIEW {schema}.events_json OWNER TO {migrator};
ALTER FUNCTION {schema}.payload_text(bytea) OWNER TO {migrator};

-- The optional views.
DO $$
DECLARE
    optional text;
    before text := pg_catalog.current_setting('search_path');
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    FOR optional IN SELECT format('%I.%I', schemaname, viewname) FROM pg_views
                    WHERE schemaname = trim('"' FROM '{schema}') AND viewname LIKE 'vw\_outbox%' LOOP
        EXECUTE 'ALTER VIEW ' || optional || ' OWNER TO {migrator}';
    END LOOP;
    PERFORM set_config('search_path', before, true);
END $$;

-- Roles of an outbox with layout eventlog, each with only the rights it needs. Run it after `migrate up`, and again after
-- `migrate up --with handlers` and after every update, as a superuser or as the owner of both schemas with CREATEROLE. It
-- is safe to run again.
{create_roles}

-- No role keeps a right that is not granted below. Rights of other users on the schema of the events stay.
REVOKE ALL ON SCHEMA {schema} FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM PUBLIC, {writer}, {relay}, {inbox}, {viewer}, {operator};
REVOKE ALL ON {table} FROM {writer}, {relay}, {inbox}, {viewer}, {operator};
GRANT USAGE ON SCHEMA {schema} TO {relay}, {inbox}, {viewer}, {operator};
GRANT USAGE ON SCHEMA {table_schema} TO {writer}, {relay}, {viewer}, {operator};

-- Writer: the application. It inserts events, and reads the id and date of those that it inserts (RETURNING).
GRANT INSERT ON {table} TO {writer};
GRANT SELECT (id, event_date) ON {table} TO {writer};

-- Relay: reads events and marks them as fanned out; never inserts one, and changes no other column. Without a retention,
-- which deletes events, it does not need DELETE.
GRANT SELECT, UPDATE (delivered), DELETE ON {table} TO {relay};
GRANT SELECT ON {schema}.row_migrations, {schema}.row_table TO {relay};
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.subscriptions, {schema}.leases, {schema}.relays, {schema}.row_notes,
                                        {schema}.row_done, {schema}.row_claims, {schema}.row_refused,
                                        {schema}.handler_types, {schema}.handler_aliases, {schema}.fan_out TO {relay};
GRANT SELECT, DELETE ON {schema}.inbox TO {relay};
GRANT SELECT, INSERT ON {schema}.audit TO {relay};

-- Inbox: the consumer. It inserts the rows of its events, finds the key of a duplicate, and deletes what has expired. It
-- cannot change a row. If it also writes events, GRANT {writer} as well.
GRANT SELECT, INSERT, DELETE ON {schema}.inbox TO {inbox};

-- Viewer: `status`, `events list` and `doctor`.
GRANT SELECT ON {table} TO {viewer};
GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {viewer};

-- Operator: `status`, `dead`, `parked`, `pause` and `resume`. It makes notifications due again and inserts audit rows.
GRANT SELECT ON {table} TO {operator};
GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {operator};
GRANT UPDATE ON {schema}.subscriptions TO {operator};
GRANT INSERT, UPDATE, DELETE ON {schema}.row_notes, {schema}.row_refused, {schema}.row_claims TO {operator};
GRANT INSERT ON {schema}.audit TO {operator};

-- Migrator: `migrate up`. It owns all of it.
ALTER SCHEMA {schema} OWNER TO {migrator};
ALTER SCHEMA {table_schema} OWNER TO {migrator};
ALTER TABLE {table} OWNER TO {migrator};
DO $$
DECLARE
    own text;
    before text := pg_catalog.current_setting('search_path');
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    FOR own IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
               WHERE schemaname = trim('"' FROM '{schema}') LOOP
        EXECUTE 'ALTER TABLE ' || own || ' OWNER TO {migrator}';
    END LOOP;
    PERFORM set_config('search_path', before, true);
END $$;

-- The table of notifications, if it exists: relays handle its rows.
DO $$
BEGIN
    IF pg_catalog.to_regclass('{notifications}') IS NOT NULL THEN
        ALTER TABLE {notifications} OWNER TO {migrator};
        REVOKE ALL ON {notifications} FROM {writer}, {relay}, {inbox}, {viewer}, {operator};
        GRANT SELECT, INSERT, UPDATE, DELETE ON {notifications} TO {relay};
        GRANT SELECT ON {notifications} TO {viewer};
        GRANT SELECT, UPDATE ON {notifications} TO {operator};
    END IF;
END $$;

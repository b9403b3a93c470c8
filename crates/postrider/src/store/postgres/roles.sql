-- Roles of an outbox, with no more rights than each needs. Run it after `migrate up`, and again after every
-- update, as a superuser or as the owner of the schema with CREATEROLE. It may be run as often as one likes.
-- The roles cannot log in: GRANT {writer} TO shop_app, and so on.

DO $$
DECLARE
    role text;
    before text := pg_catalog.current_setting('search_path');
BEGIN
    -- Functions of others that have the names of the server's must not be run here. What follows in the same transaction
    -- has its own search_path again.
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    FOREACH role IN ARRAY ARRAY['{writer}', '{relay}', '{inbox}', '{viewer}', '{migrator}'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = trim('"' FROM role)) THEN
            EXECUTE 'CREATE ROLE ' || role || ' NOLOGIN';
        END IF;
    END LOOP;
    PERFORM set_config('search_path', before, true);
END $$;

-- Nobody has a right by accident.
REVOKE ALL ON SCHEMA {schema} FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM PUBLIC, {writer}, {relay}, {inbox}, {viewer};
GRANT USAGE ON SCHEMA {schema} TO {writer}, {relay}, {inbox}, {viewer};

-- Writer: the application. Every column but tx and position, on which completeness rests. It reads back the
-- id and position of what it wrote (RETURNING), and nothing else: no payload, no progress.
GRANT INSERT (time, expires_at, max_attempts, id, type, aggregate_type, aggregate_id, key, payload, headers,
              topic, action, namespace, producer) ON {schema}.events TO {writer};
GRANT SELECT (id, position) ON {schema}.events TO {writer};

-- Relay: reads events, never writes or changes one, deletes what is delivered and old; keeps the ledger.
-- Which transactions are open it reads in pg_locks, which everybody may. To know as well which of them only wait
-- for their application, so that one left open for hours disturbs nobody, a superuser may
-- GRANT pg_read_all_stats TO {relay}.
GRANT SELECT, DELETE ON {schema}.events TO {relay};
GRANT SELECT ON {schema}.events_position_seq, {schema}.migrations TO {relay};
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.subscriptions, {schema}.parked, {schema}.leases,
                                        {schema}.relays TO {relay};
GRANT SELECT, DELETE ON {schema}.inbox TO {relay};

-- Inbox: the consumer. It inserts the rows of its events, finds the key of a duplicate, and deletes what has expired. It
-- cannot change a row. If it also writes events, GRANT {writer} as well.
GRANT SELECT, INSERT, DELETE ON {schema}.inbox TO {inbox};

-- Viewer: `status` and `doctor`. To see the transactions of others in `doctor`, a superuser may
-- GRANT pg_read_all_stats TO {viewer}.
GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {viewer};
GRANT SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {viewer};

-- Migrator: owns it all. Who runs `migrate up` says so: ?options=-c%20role%3D{migrator_name}
ALTER SCHEMA {schema} OWNER TO {migrator};
ALTER TABLE {schema}.migrations OWNER TO {migrator};
ALTER TABLE {schema}.events OWNER TO {migrator};
ALTER TABLE {schema}.subscriptions OWNER TO {migrator};
ALTER TABLE {schema}.parked OWNER TO {migrator};
ALTER TABLE {schema}.leases OWNER TO {migrator};
ALTER TABLE {schema}.relays OWNER TO {migrator};
ALTER TABLE {schema}.inbox OWNER TO {migrator};
ALTER VIEW {schema}.events_json OWNER TO {migrator};
ALTER FUNCTION {schema}.payload_text(bytea) OWNER TO {migrator};

-- The views that are made only when somebody asks for them.
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

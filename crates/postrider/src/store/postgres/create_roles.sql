-- The roles cannot log in: GRANT {writer} TO shop_app, and so on.

DO $$
DECLARE
    role text;
    before text := pg_catalog.current_setting('search_path');
BEGIN
    -- Other users' functions with the names of the server's must not run here. The search_path is restored at the end.
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    FOREACH role IN ARRAY ARRAY['{writer}', '{relay}', '{inbox}', '{viewer}', '{operator}',
                               '{migrator}'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = trim('"' FROM role)) THEN
            EXECUTE 'CREATE ROLE ' || role || ' NOLOGIN';
        END IF;
    END LOOP;
    PERFORM set_config('search_path', before, true);
END $$;

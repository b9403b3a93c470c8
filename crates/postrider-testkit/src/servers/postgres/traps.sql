-- A schema `trap` with a function, an operator and a table of every name that pg_catalog has, and some that match a call
-- better than the original. A statement that finds a name there first fails with an error.
CREATE SCHEMA trap;
GRANT USAGE ON SCHEMA trap TO PUBLIC;
DO $make$
DECLARE
    found record;
    body text := $body$LANGUAGE plpgsql AS $t$ BEGIN RAISE EXCEPTION 'trapped'; END $t$$body$;
BEGIN
    FOR found IN
        SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS arguments,
               CASE WHEN p.proretset THEN 'SETOF ' ELSE '' END || format_type(p.prorettype, NULL) AS result
        FROM pg_proc AS p
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND p.provariadic = 0
          AND p.proargmodes IS NULL
          AND NOT EXISTS (SELECT FROM unnest(p.proargtypes::oid[] || p.prorettype) AS used (type)
                          JOIN pg_type AS y ON y.oid = used.type WHERE y.typtype = 'p')
        UNION ALL
        VALUES ('hashtextextended'::name, 'text, integer', 'bigint'), ('unnest', 'bigint[]', 'SETOF bigint'),
               ('unnest', 'text[]', 'SETOF text'), ('count', 'bigint', 'bigint'), ('concat_ws', 'text, text', 'text'),
               ('convert_from', 'bytea, text', 'text')
    LOOP
        EXECUTE format('CREATE FUNCTION trap.%I(%s) RETURNS %s %s', found.proname, found.arguments, found.result, body);
    END LOOP;
    FOR found IN
        SELECT row_number() OVER () AS number, all_of_them.*
        FROM (SELECT o.oprname, format_type(nullif(o.oprleft, 0), NULL) AS l, format_type(o.oprright, NULL) AS r,
                     format_type(o.oprresult, NULL) AS result
              FROM pg_operator AS o
              WHERE o.oprnamespace = 'pg_catalog'::regnamespace
                AND NOT EXISTS (SELECT FROM pg_type AS y
                                WHERE y.oid IN (o.oprleft, o.oprright, o.oprresult) AND y.typtype = 'p')
              UNION ALL
              VALUES ('*'::name, 'numeric', 'integer', 'numeric'), ('*', 'bigint', 'interval', 'interval'),
                     ('||', 'text', 'bigint', 'text'), ('||', 'text', 'integer', 'text')) AS all_of_them
    LOOP
        EXECUTE format('CREATE FUNCTION trap.%I(%s) RETURNS %s %s', 'operator_' || found.number,
                       concat_ws(', ', found.l, found.r), found.result, body);
        EXECUTE format('CREATE OPERATOR trap.%s (FUNCTION = trap.%I, %s RIGHTARG = %s)', found.oprname,
                       'operator_' || found.number, 'LEFTARG = ' || found.l || ',', found.r);
    END LOOP;
    FOR found IN SELECT relname FROM pg_class
                 WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v') LOOP
        EXECUTE format('CREATE TABLE trap.%I ()', found.relname);
        EXECUTE format('GRANT SELECT ON trap.%I TO PUBLIC', found.relname);
    END LOOP;
END $make$;

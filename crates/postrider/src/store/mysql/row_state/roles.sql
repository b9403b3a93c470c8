-- Roles of an outbox with layout eventlog, each with only the rights it needs. Run it after `migrate up`, and again after
-- `migrate up --with handlers` and after every update, as a user with the right to create roles and to grant. It is safe
-- to run again.
-- A user needs the role granted and set as default: GRANT '{writer}' TO 'shop_app'@'%'; and
-- SET DEFAULT ROLE '{writer}' TO 'shop_app'@'%' (MySQL), SET DEFAULT ROLE '{writer}' FOR 'shop_app'@'%' (MariaDB).

CREATE ROLE IF NOT EXISTS '{writer}';
CREATE ROLE IF NOT EXISTS '{relay}';
CREATE ROLE IF NOT EXISTS '{inbox}';
CREATE ROLE IF NOT EXISTS '{viewer}';
CREATE ROLE IF NOT EXISTS '{operator}';
CREATE ROLE IF NOT EXISTS '{migrator}';

-- Writer: the application. It inserts events.
GRANT INSERT ON {table} TO '{writer}';

-- Relay: reads events and marks them as fanned out; never inserts one, and changes no other column. Without a retention,
-- which deletes events, it does not need DELETE.
GRANT SELECT, UPDATE (delivered), DELETE ON {table} TO '{relay}';
GRANT SELECT ON {schema}.row_migrations TO '{relay}';
-- UPDATE is for its lock, which a new subscription takes.
GRANT SELECT, UPDATE (only_one) ON {schema}.row_table TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.subscriptions TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.leases TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.relays TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.row_notes TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.row_done TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.row_claims TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.row_refused TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.handler_types TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.handler_aliases TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.fan_out TO '{relay}';
GRANT SELECT, DELETE ON {schema}.inbox TO '{relay}';
GRANT SELECT, INSERT ON {schema}.audit TO '{relay}';
-- To see whether the server reports its locks, which a relay checks on every outbox.
GRANT SELECT ON performance_schema.* TO '{relay}';

-- Inbox: the consumer. It inserts the rows of its events, and deletes what has expired. It cannot change a row. If it also
-- writes events, grant it '{writer}' as well.
GRANT SELECT, INSERT, DELETE ON {schema}.inbox TO '{inbox}';

-- Viewer: `status`, `events list` and `doctor`.
GRANT SELECT ON {table} TO '{viewer}';
GRANT SELECT ON {database}.* TO '{viewer}';
GRANT SELECT ON performance_schema.* TO '{viewer}';

-- Operator: `status`, `dead`, `parked`, `pause` and `resume`. It makes notifications due again and inserts audit rows.
GRANT SELECT ON {table} TO '{operator}';
GRANT SELECT ON {database}.* TO '{operator}';
GRANT UPDATE ON {schema}.subscriptions TO '{operator}';
GRANT INSERT, UPDATE, DELETE ON {schema}.row_notes TO '{operator}';
GRANT INSERT, UPDATE, DELETE ON {schema}.row_refused TO '{operator}';
GRANT INSERT, UPDATE, DELETE ON {schema}.row_claims TO '{operator}';
GRANT INSERT ON {schema}.audit TO '{operator}';
GRANT SELECT ON performance_schema.* TO '{operator}';

-- Migrator: `migrate up`.
GRANT ALL PRIVILEGES ON {database}.* TO '{migrator}';
GRANT ALL PRIVILEGES ON {table_schema}.* TO '{migrator}';
GRANT SELECT ON performance_schema.* TO '{migrator}';

-- The table of notifications, if it exists: relays handle its rows.
SET @postrider_handlers = (SELECT COUNT(*) FROM information_schema.tables
                           WHERE table_schema = '{table_database}' AND table_name = 'event_notifications');
SET @postrider_grant = IF(@postrider_handlers > 0,
                          'GRANT SELECT, INSERT, UPDATE, DELETE ON {notifications} TO ''{relay}''', 'DO 0');
PREPARE postrider_grant FROM @postrider_grant;
EXECUTE postrider_grant;
SET @postrider_grant = IF(@postrider_handlers > 0, 'GRANT SELECT ON {notifications} TO ''{viewer}''', 'DO 0');
PREPARE postrider_grant FROM @postrider_grant;
EXECUTE postrider_grant;
SET @postrider_grant = IF(@postrider_handlers > 0,
                          'GRANT SELECT, UPDATE ON {notifications} TO ''{operator}''', 'DO 0');
PREPARE postrider_grant FROM @postrider_grant;
EXECUTE postrider_grant;
DEALLOCATE PREPARE postrider_grant;

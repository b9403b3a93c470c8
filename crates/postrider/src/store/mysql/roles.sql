-- Roles of an outbox, each with only the rights it needs. Run it after `migrate up`, and again after every update, as a
-- user with the right to create roles and to grant. It is safe to run again.
-- A user needs the role granted and set as default: GRANT '{writer}' TO 'shop_app'@'%'; and
-- SET DEFAULT ROLE '{writer}' TO 'shop_app'@'%' (MySQL), SET DEFAULT ROLE '{writer}' FOR 'shop_app'@'%' (MariaDB).

CREATE ROLE IF NOT EXISTS '{writer}';
CREATE ROLE IF NOT EXISTS '{relay}';
CREATE ROLE IF NOT EXISTS '{inbox}';
CREATE ROLE IF NOT EXISTS '{viewer}';
CREATE ROLE IF NOT EXISTS '{operator}';
CREATE ROLE IF NOT EXISTS '{migrator}';

-- Writer: the application. It may insert every column except the position, on which completeness depends. It needs no
-- right to read: the server returns the position with the INSERT.
GRANT INSERT ({columns})
    ON {schema}.events TO '{writer}';
GRANT INSERT ON {schema}.actions TO '{writer}';

-- Relay: reads events, deletes delivered events after the retention, never inserts or updates one; records the progress.
-- UPDATE on migrations is for the lock of retention, which is its first row; not for the version.
GRANT SELECT, DELETE ON {schema}.events TO '{relay}';
GRANT SELECT, UPDATE (applied_at) ON {schema}.migrations TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.subscriptions TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.parked TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.leases TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.relays TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.empty_positions TO '{relay}';
GRANT SELECT, DELETE ON {schema}.inbox TO '{relay}';
GRANT SELECT, DELETE ON {schema}.actions TO '{relay}';
GRANT SELECT, INSERT ON {schema}.audit TO '{relay}';
-- To see which transactions have the outbox open for writing.
GRANT SELECT ON performance_schema.* TO '{relay}';
-- Only MariaDB executes the part after M!: it needs PROCESS to report that a transaction of another user is idle. PROCESS
-- also shows the relay the texts of all statements on the server; revoke it (REVOKE PROCESS ON *.* FROM '{relay}') if no
-- application leaves transactions open. On servers that do not report metadata locks, MySQL or MariaDB, a relay needs it:
-- GRANT PROCESS ON *.* TO '{relay}';
GRANT USAGE /*M! , PROCESS */ ON *.* TO '{relay}';

-- Inbox: the consumer. It inserts the rows of its events, and deletes what has expired. It cannot change a row. If it also
-- writes events, grant it '{writer}' as well.
GRANT SELECT, INSERT, DELETE ON {schema}.inbox TO '{inbox}';

-- Viewer: `status` and `doctor`.
GRANT SELECT ON {database}.* TO '{viewer}';
GRANT SELECT ON performance_schema.* TO '{viewer}';

-- Operator: `status`, `explain`, `dead`, `parked`, `replay`, `pause` and `resume`. It changes parked events and inserts audit
-- rows; it can neither write nor delete an event, nor change the audit trail. `accept-history` and `cleanup` need the relay's
-- role. UPDATE on migrations is for the lock that keeps events from being deleted during a replay; not for the version.
GRANT SELECT ON {database}.* TO '{operator}';
GRANT UPDATE ON {schema}.subscriptions TO '{operator}';
GRANT UPDATE (applied_at) ON {schema}.migrations TO '{operator}';
GRANT INSERT, UPDATE, DELETE ON {schema}.parked TO '{operator}';
GRANT INSERT ON {schema}.audit TO '{operator}';
GRANT SELECT ON performance_schema.* TO '{operator}';

-- Migrator: `migrate up`.
GRANT ALL PRIVILEGES ON {database}.* TO '{migrator}';
GRANT SELECT ON performance_schema.* TO '{migrator}';

-- Roles of an outbox, with no more rights than each needs. Run it after `migrate up`, and again after every
-- update, as a user who may create roles and grant. It may be run as often as one likes.
-- A role is used by those it is granted to and who have it set: GRANT '{writer}' TO 'shop_app'@'%'; and
-- SET DEFAULT ROLE '{writer}' TO 'shop_app'@'%' (MySQL), SET DEFAULT ROLE '{writer}' FOR 'shop_app'@'%' (MariaDB).

CREATE ROLE IF NOT EXISTS '{writer}';
CREATE ROLE IF NOT EXISTS '{relay}';
CREATE ROLE IF NOT EXISTS '{inbox}';
CREATE ROLE IF NOT EXISTS '{viewer}';
CREATE ROLE IF NOT EXISTS '{migrator}';

-- Writer: the application. It may insert every column but the position, on which completeness rests, and reads
-- nothing: the position of what it wrote it is told without.
GRANT INSERT (time, expires_at, max_attempts, id, type, aggregate_type, aggregate_id, `key`, payload, headers,
              topic, action, namespace, producer) ON {schema}.events TO '{writer}';

-- Relay: reads events, never writes or changes one, deletes what is delivered and old; keeps the ledger.
-- UPDATE on migrations is for the lock on its row, under which events are deleted; not on the version.
GRANT SELECT, DELETE ON {schema}.events TO '{relay}';
GRANT SELECT, UPDATE (applied_at) ON {schema}.migrations TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.subscriptions TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.parked TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.leases TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.relays TO '{relay}';
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.absent TO '{relay}';
GRANT SELECT, DELETE ON {schema}.inbox TO '{relay}';
-- Who has the outbox open for writing.
GRANT SELECT ON performance_schema.* TO '{relay}';
-- MariaDB alone reads what follows M!: it tells only with PROCESS that the transaction of another user rests. That shows the
-- relay the texts of all statements on the server; take it back (REVOKE PROCESS ON *.* FROM '{relay}') if nobody leaves transactions
-- open. On servers that tell no metadata locks, of both kinds, a relay cannot do without it: GRANT PROCESS ON *.* TO '{relay}';
GRANT USAGE /*M! , PROCESS */ ON *.* TO '{relay}';

-- Inbox: the consumer. It inserts the rows of its events, and deletes what has expired. It cannot change a row. If it also
-- writes events, grant it '{writer}' as well.
GRANT SELECT, INSERT, DELETE ON {schema}.inbox TO '{inbox}';

-- Viewer: `status` and `doctor`.
GRANT SELECT ON {database}.* TO '{viewer}';
GRANT SELECT ON performance_schema.* TO '{viewer}';

-- Migrator: `migrate up`.
GRANT ALL PRIVILEGES ON {database}.* TO '{migrator}';
GRANT SELECT ON performance_schema.* TO '{migrator}';

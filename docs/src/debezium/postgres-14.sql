CREATE ROLE debezium LOGIN REPLICATION PASSWORD 'change-me';
GRANT USAGE ON SCHEMA eventlog TO debezium;
GRANT SELECT ON eventlog.events TO debezium;
CREATE PUBLICATION shop_eventlog FOR TABLE eventlog.events
    WITH (publish = 'insert');

//! Privileges: those that this user lacks or does not need, and those that other users should not have.

use postrider::layout::RowTable;

use super::{Check, Queries, Subject};

/// Privileges that a relay needs and this user lacks. No index: a few constant rows.
const MISSING: &str = "
    SELECT verb || ' on ' || name
    FROM (VALUES ('events', 'SELECT'), ('events', 'DELETE'), ('events_position_seq', 'SELECT'),
                 ('migrations', 'SELECT'),
                 ('subscriptions', 'SELECT'), ('subscriptions', 'INSERT'), ('subscriptions', 'UPDATE'),
                 ('parked', 'SELECT'), ('parked', 'INSERT'), ('parked', 'UPDATE'), ('parked', 'DELETE'),
                 ('leases', 'SELECT'), ('leases', 'INSERT'), ('leases', 'UPDATE'), ('leases', 'DELETE'))
         AS needed (name, verb)
    WHERE NOT has_table_privilege('{schema}.' || name, verb)";

/// The same for a table with a state per row. Some layouts have further tables, which relays of the others do not need.
const MISSING_FOR_ROWS: &str = "
    SELECT verb || ' on ' || name
    FROM (VALUES ('row_migrations', 'SELECT'), ('row_table', 'SELECT'), ('inbox', 'SELECT'), ('inbox', 'DELETE'))
         AS needed (name, verb)
    WHERE NOT has_table_privilege('{schema}.' || name, verb)
    UNION ALL
    SELECT verb || ' on ' || name
    FROM (VALUES ('subscriptions'), ('leases'), ('relays'), ('row_notes'), ('row_done'), ('row_claims')) AS own (name),
         (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS verbs (verb)
    WHERE NOT has_table_privilege('{schema}.' || name, verb)
    UNION ALL
    SELECT 'SELECT on the table' WHERE NOT has_any_column_privilege('{table}', 'SELECT')
    UNION ALL
    SELECT 'UPDATE on the table' WHERE {updates} AND NOT has_any_column_privilege('{table}', 'UPDATE')";

/// No index: one row of each catalog.
const EXCESS: &str = "
    SELECT current_user || ' is a superuser' FROM pg_roles WHERE rolname = current_user AND rolsuper
    UNION ALL
    SELECT current_user || ' owns the outbox'
    FROM pg_class
    WHERE oid = '{schema}.events'::regclass AND pg_has_role(current_user, relowner, 'USAGE')
      AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
    UNION ALL
    SELECT current_user || ' may ' || verb || ' events'
    FROM (VALUES ('INSERT'), ('UPDATE'), ('TRUNCATE')) AS excess (verb), pg_class
    WHERE oid = '{schema}.events'::regclass AND has_table_privilege(oid, verb)
      AND NOT pg_has_role(current_user, relowner, 'USAGE')";

/// Privileges granted on the table and its columns to users other than the owner.
const GRANTED: &str = "
    SELECT coalesce(g.rolname, 'every user') || ' may ' || acl.privilege_type || ' ' || acl.thing
    FROM (SELECT a.grantee, a.privilege_type, 'events' AS thing, c.relowner
          FROM pg_class AS c, aclexplode(c.relacl) AS a
          WHERE c.oid = '{schema}.events'::regclass AND a.privilege_type IN ('UPDATE', 'TRUNCATE', 'TRIGGER')
          UNION
          SELECT a.grantee, a.privilege_type, 'events.' || t.attname, c.relowner
          FROM pg_class AS c JOIN pg_attribute AS t ON t.attrelid = c.oid, aclexplode(t.attacl) AS a
          WHERE c.oid = '{schema}.events'::regclass
            AND (a.privilege_type = 'UPDATE' OR a.privilege_type = 'INSERT' AND t.attname IN ('tx', 'position'))
         ) AS acl
    LEFT JOIN pg_roles AS g ON g.oid = acl.grantee
    WHERE acl.grantee <> acl.relowner
    ORDER BY 1";

impl Queries<'_> {
    pub(super) async fn missing(&self, subject: &mut Subject<'_>) {
        self.report_missing(self.query(MISSING).await, subject);
    }

    /// The same for a table with a state per row. A table of a column map may be one that no relay updates.
    pub(super) async fn missing_for_rows(&self, rows: &RowTable, subject: &mut Subject<'_>) {
        let updates = if rows.columns().is_some() { "FALSE" } else { "TRUE" };
        let sql = rows.put_into(MISSING_FOR_ROWS).replace("{updates}", updates);
        self.report_missing(self.query(&sql).await, subject);
    }

    fn report_missing(&self, missing: Result<Vec<String>, String>, subject: &mut Subject<'_>) {
        match missing {
            Ok(missing) if missing.is_empty() => {
                subject.ok(Check::PostgresPrivileges, "all privileges a relay needs")
            }
            Ok(missing) => subject
                .warn(Check::PostgresPrivileges, format!("missing for a relay: {}", missing.join(", "))),
            Err(error) => subject.unchecked(Check::PostgresPrivileges, &error),
        }
    }

    pub(super) async fn excess(&self, subject: &mut Subject<'_>) {
        self.report_excess(EXCESS, subject).await;
    }

    /// The same for a table with a state per row, which a relay updates.
    pub(super) async fn excess_for_rows(&self, rows: &RowTable, subject: &mut Subject<'_>) {
        let sql = EXCESS.replace("{schema}.events", &rows.put_into("{table}")).replace("('UPDATE'), ", "");
        self.report_excess(&sql, subject).await;
    }

    async fn report_excess(&self, sql: &str, subject: &mut Subject<'_>) {
        subject.lines(
            Check::PostgresExcessPrivileges,
            self.query(sql).await,
            "only the privileges a relay needs",
        );
    }

    pub(super) async fn writers(&self, subject: &mut Subject<'_>) {
        subject.lines(
            Check::PostgresWriters,
            self.query(GRANTED).await,
            "only the owner can change an event",
        );
    }
}

//! Checks of a MySQL or MariaDB database.
//!
//! Every check is one statement that changes nothing; a statement that fails is a warning.

use std::collections::HashMap;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::{FromRow, Queryable};
use postrider::layout::RowTable;
use postrider::operate::explain::SqlFlavor;
use postrider::store::mysql::{MySqlConfig, MySqlRowStore, MySqlStore};
use postrider::{Code, Error, Ident, Position};

use super::server::{self, Server};
use super::{Check, INBOX_EXPIRED, INBOX_ROWS_MAX, InboxHealth, Options, Subject, layout};

/// One line per setting with which a confirmed commit can be lost. A server leaves out settings that it does not know.
const DURABLE: &str = "
    SHOW GLOBAL VARIABLES WHERE
        variable_name = 'innodb_flush_log_at_trx_commit' AND value <> '1'
        OR variable_name = 'sync_binlog' AND value <> '1' AND @@global.log_bin = 1
        OR variable_name = 'innodb_doublewrite' AND value IN ('OFF', '0')";

/// Transactions that began long ago. No index: memory of the server. Times are compared with the server's clock.
const TRANSACTIONS: &str = "
    SELECT CONCAT('connection ', trx_mysql_thread_id, ': open for ', TIMESTAMPDIFF(SECOND, trx_started, NOW()), 's'),
           trx_mysql_thread_id, trx_query
    FROM information_schema.innodb_trx
    WHERE trx_mysql_thread_id <> 0 AND TIMESTAMPDIFF(SECOND, trx_started, NOW()) > {age}
    ORDER BY trx_started
    LIMIT 5";

/// The last statement of each connection, also if it has ended. MariaDB collects none unless it is configured to.
const STATEMENTS: &str = "
    SELECT t.processlist_id, s.sql_text
    FROM performance_schema.events_statements_current AS s
    JOIN performance_schema.threads AS t ON t.thread_id = s.thread_id
    WHERE t.processlist_id IS NOT NULL AND s.sql_text IS NOT NULL
    ORDER BY s.event_id";

/// Privileges of the user that a relay does not need.
const EXCESS: &str = "
    SELECT CONCAT(CURRENT_USER(), ' has ', privilege_type, ' on all databases')
    FROM information_schema.user_privileges
    WHERE grantee = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')
      AND privilege_type IN ('SUPER', 'INSERT', 'UPDATE', 'DROP')";

/// The triggers on a table with a state per row and on the tables next to it. Index: that of the dictionary, by name.
const ROW_TRIGGERS: &str = "
    SELECT CONCAT(trigger_name, ' on ', event_object_table, ' by ', definer)
    FROM information_schema.triggers
    WHERE event_object_schema = '{schema}'
       OR CONCAT('`', event_object_schema, '`.`', event_object_table, '`') = '{table}'
    ORDER BY 1";

/// Beyond this value half of all positions are used: normal writing never gets there.
const POSITIONS_FEW: i64 = i64::MAX / 2;

/// Maximum number of positions in one finding.
const POSITIONS_SHOWN: usize = 5;

/// Rows of the inbox that expired a while ago and are no longer kept. Index: inbox_expires_at (expires_at), from its begin.
const INBOX: &str = "
    SELECT COUNT(*)
    FROM (SELECT 1 FROM {schema}.inbox
          WHERE expires_at < TIMESTAMPADD(SECOND, -{expired}, UTC_TIMESTAMP(6))
            AND processed_at < TIMESTAMPADD(SECOND, -{kept}, UTC_TIMESTAMP(6))
          LIMIT {rows}) AS expired";

/// Unique keys of the inbox with exactly the columns of its key. Index: that of the dictionary, by name.
const INBOX_KEYS: &str = "
    SELECT COUNT(*)
    FROM (SELECT GROUP_CONCAT(column_name ORDER BY column_name) AS columns
          FROM information_schema.statistics
          WHERE table_schema = '{schema}' AND table_name = 'inbox' AND non_unique = 0
          GROUP BY index_name) AS unique_keys
    WHERE LOWER(columns) = 'consumer_group,event_id'";

/// See [`crate::database::Database::inbox_health`].
pub(crate) async fn inbox_health(
    config: &MySqlConfig,
    schema: &Ident,
    kept: Duration,
) -> Result<InboxHealth, String> {
    let client = config.client().await.map_err(|error| error.one_line())?;
    let sql = INBOX
        .replace("{schema}", &format!("`{}`", schema.as_str()))
        .replace("{expired}", &INBOX_EXPIRED.as_secs().to_string())
        .replace("{kept}", &kept.as_secs().to_string())
        .replace("{rows}", &INBOX_ROWS_MAX.to_string());
    let mut queries = Queries { client };
    let expired: Vec<i64> = queries.query(&sql).await?;
    let keys: Vec<i64> = queries.query(&INBOX_KEYS.replace("{schema}", schema.as_str())).await?;
    let first = |rows: Vec<i64>| rows.first().copied().unwrap_or_default();
    Ok(InboxHealth { expired: first(expired), has_key: first(keys) > 0 })
}

/// Checks the server. Returns whether its tables can be read.
pub(crate) async fn check(
    server: Server<'_, MySqlConfig>,
    options: &Options,
    subject: &mut Subject<'_>,
) -> bool {
    let Server { config, schema, admin, shown } = server;
    let client = match config.client().await {
        Ok(client) => client,
        Err(error) => {
            subject.refused(Check::Readable, &error);
            return false;
        }
    };
    subject.ok(Check::Readable, format!("{shown} is reachable"));
    server::encryption(config.is_exposed(), Check::MySqlEncrypted, subject);
    let mut queries = Queries { client };
    queries.clock(subject).await;
    queries.durable(subject).await;
    queries.transactions(options.transaction_age_max, subject).await;
    prepared(config, subject).await;
    if let Some(rows) = admin.row_table() {
        let usable = layout::check(admin, rows, subject).await;
        if usable {
            row_table(config, rows, subject).await;
            let triggers = rows.put_into_mysql(ROW_TRIGGERS).replace("{schema}", schema.as_str());
            subject.lines(
                Check::MySqlTriggers,
                queries.query(&triggers).await,
                "none that this user can see",
            );
            queries.excess(subject).await;
            queries.rights(schema, subject).await;
        }
        return usable;
    }
    let usable = tables(config, subject).await;
    if usable {
        positions(config, subject).await;
        let triggers = MySqlStore::triggers(config).await.map_err(|error| error.one_line());
        subject.lines(Check::MySqlTriggers, triggers, "none that this user can see");
        queries.excess(subject).await;
        queries.rights(schema, subject).await;
    }
    usable
}

/// Whether a store can be opened: version, settings, locks, schema, and an outbox as the migrations create it.
async fn tables(config: &MySqlConfig, subject: &mut Subject<'_>) -> bool {
    let schema = MySqlStore::schema(config).await;
    match MySqlStore::connect(config).await {
        Ok(store) => {
            store.close().await;
            let found = schema.map(|schema| schema.found).unwrap_or_default();
            subject.ok(Check::SchemaCurrent, format!("schema {found}"));
            match MySqlStore::writers(config).await {
                Ok(Some(_)) => subject.ok(Check::MySqlServer, "a primary that reports which sessions write"),
                Ok(None) => {
                    let what = "a primary, but it does not report all metadata locks: rolled-back positions \
                                stay holes for longer";
                    subject.warn(Check::MySqlServer, what);
                }
                Err(error) => subject.warn(Check::MySqlServer, error.one_line()),
            }
            true
        }
        Err(error) => {
            subject.refused(check_of(&error), &error);
            false
        }
    }
}

/// Whether a store for a table with a state per row can be opened: version, settings, a primary.
async fn row_table(config: &MySqlConfig, rows: &RowTable, subject: &mut Subject<'_>) {
    match MySqlRowStore::connect(config, rows).await {
        Ok(store) => {
            store.close().await;
            subject.ok(Check::MySqlServer, "a primary");
        }
        Err(error) => subject.refused(check_of(&error), &error),
    }
}

/// The check that an error of opening a store belongs to.
fn check_of(error: &Error) -> Check {
    match error.code() {
        Code::ServerTooOld | Code::StoreReadOnly | Code::ServerUnfit => Check::MySqlServer,
        Code::PrivilegeMissing => Check::MySqlPrivileges,
        _ => Check::SchemaCurrent,
    }
}

/// Positions that writers have chosen, and how many are free.
async fn positions(config: &MySqlConfig, subject: &mut Subject<'_>) {
    let found = MySqlStore::late_rows(config).await.map(|found| {
        let line = |(name, at): (String, Vec<Position>)| {
            let first: Vec<String> = at.iter().take(POSITIONS_SHOWN).map(Position::to_string).collect();
            format!("{} of {name} (position {})", at.len(), first.join(", "))
        };
        found.into_iter().map(line).collect::<Vec<_>>()
    });
    subject.lines(Check::MySqlChosenPositions, found.map_err(|error| error.one_line()), "none");
    match MySqlStore::last_position(config).await {
        Ok(last) if last.get() > POSITIONS_FEW => {
            subject.fail(Check::MySqlFreePositions, format!("the AUTO_INCREMENT counter is at {last}"));
        }
        Ok(_) => subject.ok(Check::MySqlFreePositions, "enough positions are free"),
        Err(error) => subject.unchecked(Check::MySqlFreePositions, &error.one_line()),
    }
}

/// Prepared transactions that are not finished, by their names.
async fn prepared(config: &MySqlConfig, subject: &mut Subject<'_>) {
    let names = MySqlStore::prepared(config).await;
    let lines = names.map(|names| names.into_iter().map(|name| format!("XA {name}")).collect::<Vec<_>>());
    subject.lines(Check::MySqlPrepared, lines.map_err(|error| error.one_line()), "none");
}

/// A connection for the queries of the checks.
struct Queries {
    client: Conn,
}

impl Queries {
    async fn query<T: FromRow + Send + 'static>(&mut self, sql: &str) -> Result<Vec<T>, String> {
        self.client.query(sql).await.map_err(|error| error.to_string())
    }

    async fn clock(&mut self, subject: &mut Subject<'_>) {
        let sql = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
        server::clock(self.query(sql).await, Check::MySqlClock, subject);
    }

    async fn durable(&mut self, subject: &mut Subject<'_>) {
        let found = self.query::<(String, String)>(DURABLE).await;
        let lines =
            found.map(|found| found.into_iter().map(|(name, value)| format!("{name} = {value}")).collect());
        subject.lines(Check::MySqlDurable, lines, "commits survive a crash");
    }

    async fn transactions(&mut self, age_max: Duration, subject: &mut Subject<'_>) {
        // InnoDB reports times in the time zone of the machine, whatever the settings of the server and the session.
        let zone = self.client.query_drop("SET time_zone = 'SYSTEM'").await;
        let sql = TRANSACTIONS.replace("{age}", &age_max.as_secs().to_string());
        let found: Result<Vec<(String, u64, Option<String>)>, String> = match zone {
            Ok(()) => self.query(&sql).await,
            Err(error) => Err(error.to_string()),
        };
        // Without the right to read it, only statements that are being executed are shown.
        let last: HashMap<u64, String> = match &found {
            Ok(found) if !found.is_empty() => {
                self.query(STATEMENTS).await.unwrap_or_default().into_iter().collect()
            }
            _ => HashMap::new(),
        };
        let line = |(line, connection, running): (String, u64, Option<String>)| {
            let statement = running.as_ref().or_else(|| last.get(&connection));
            server::with_statement(line, statement.map(String::as_str), SqlFlavor::MySql)
        };
        let found = found.map(|found| found.into_iter().map(line).collect());
        subject.lines(Check::MySqlTransactions, found, "no long-running transaction");
    }

    async fn excess(&mut self, subject: &mut Subject<'_>) {
        subject.lines(
            Check::MySqlExcessPrivileges,
            self.query(EXCESS).await,
            "only the privileges a relay needs",
        );
    }

    /// Opening the store has checked most read privileges; this checks a write.
    async fn rights(&mut self, schema: &Ident, subject: &mut Subject<'_>) {
        let name = schema.as_str();
        let sql = format!("UPDATE `{name}`.subscriptions SET clean = clean WHERE FALSE");
        let written =
            self.client.query_drop(sql).await.map(|()| Vec::new()).map_err(|error| error.to_string());
        subject.lines(Check::MySqlPrivileges, written, "a relay can record its progress");
    }
}

//! What is particular about a MySQL or MariaDB database.
//!
//! Every question is one statement that changes nothing; one that cannot be answered is a warning.

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::{FromRow, Queryable};
use postrider::store::Store;
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider::{Clock, Code, Ident, Position, SystemClock};

use super::{Check, Options, Subject, layout};
use crate::output::age;

/// Clocks of two machines may differ so much without harm.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);

/// One line per setting that lets a confirmed commit be lost. What a server does not know it leaves out.
const DURABLE: &str = "
    SHOW GLOBAL VARIABLES WHERE
        variable_name = 'innodb_flush_log_at_trx_commit' AND value <> '1'
        OR variable_name = 'sync_binlog' AND value <> '1' AND @@global.log_bin = 1
        OR variable_name = 'innodb_doublewrite' AND value IN ('OFF', '0')";

/// Transactions that began long ago. No index: memory of the server. Times are compared with the server's own.
const TRANSACTIONS: &str = "
    SELECT CONCAT('connection ', trx_mysql_thread_id, ': open for ', TIMESTAMPDIFF(SECOND, trx_started, NOW()), 's')
    FROM information_schema.innodb_trx
    WHERE trx_mysql_thread_id <> 0 AND TIMESTAMPDIFF(SECOND, trx_started, NOW()) > {age}
    ORDER BY trx_started
    LIMIT 5";

/// What the user may do beyond a relay's work.
const EXCESS: &str = "
    SELECT CONCAT(CURRENT_USER(), ' has ', privilege_type, ' on all databases')
    FROM information_schema.user_privileges
    WHERE grantee = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')
      AND privilege_type IN ('SUPER', 'INSERT', 'UPDATE', 'DROP')";

/// With the counter beyond this, half of all positions are used up: normal writing never gets there.
const POSITIONS_FEW: i64 = i64::MAX / 2;

/// Positions named in one line.
const POSITIONS_SHOWN: usize = 5;

/// Checks the server, and answers whether its tables can be read.
pub(crate) async fn check(
    server: super::Server<'_, MySqlConfig>,
    options: &Options,
    subject: &mut Subject<'_>,
) -> bool {
    let super::Server { config, schema, admin, shown } = server;
    let client = match config.client().await {
        Ok(client) => client,
        Err(error) => {
            subject.refused(Check::Readable, &error);
            return false;
        }
    };
    subject.ok(Check::Readable, format!("{shown} is reachable"));
    if config.is_exposed() {
        subject.warn(Check::MySqlEncrypted, "the connection is not encrypted");
    } else {
        subject.ok(Check::MySqlEncrypted, "encrypted, or local to this machine");
    }
    let mut server = Server { client };
    server.clock(subject).await;
    server.durable(subject).await;
    server.transactions(options.transaction_age_max, subject).await;
    prepared(config, subject).await;
    if let Some(rows) = admin.row_table() {
        return layout::check(admin, rows, subject).await;
    }
    let usable = tables(config, subject).await;
    if usable {
        positions(config, subject).await;
        tell(
            subject,
            Check::MySqlTriggers,
            reported(MySqlStore::triggers(config).await),
            "none that this user can see",
        );
        server.excess(subject).await;
        server.rights(schema, subject).await;
    }
    usable
}

/// Whether a store can be opened: version, settings, locks, schema, and an outbox as the migrations made it.
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
                                stay undecided for longer";
                    subject.warn(Check::MySqlServer, what);
                }
                Err(error) => subject.warn(Check::MySqlServer, error.one_line()),
            }
            true
        }
        Err(error) => {
            let check = match error.code() {
                Code::ServerTooOld | Code::StoreReadOnly | Code::ServerUnfit => Check::MySqlServer,
                Code::PrivilegeMissing => Check::MySqlRights,
                _ => Check::SchemaCurrent,
            };
            subject.refused(check, &error);
            false
        }
    }
}

/// Positions that writers chose, and how many are left.
async fn positions(config: &MySqlConfig, subject: &mut Subject<'_>) {
    let found = MySqlStore::late_rows(config).await.map(|found| {
        let line = |(name, at): (String, Vec<Position>)| {
            let first: Vec<String> = at.iter().take(POSITIONS_SHOWN).map(Position::to_string).collect();
            format!("{} of {name} (position {})", at.len(), first.join(", "))
        };
        found.into_iter().map(line).collect::<Vec<_>>()
    });
    tell(subject, Check::MySqlChosen, reported(found), "none");
    match MySqlStore::last_position(config).await {
        Ok(last) if last.get() > POSITIONS_FEW => {
            subject.fail(Check::MySqlCounter, format!("the AUTO_INCREMENT counter is at {last}"));
        }
        Ok(_) => subject.ok(Check::MySqlCounter, "enough positions are free"),
        Err(error) => subject.warn(Check::MySqlCounter, format!("cannot be checked: {}", error.one_line())),
    }
}

/// Transactions that are not decided yet, by their names.
async fn prepared(config: &MySqlConfig, subject: &mut Subject<'_>) {
    let names = MySqlStore::prepared(config).await;
    let lines = names.map(|names| names.into_iter().map(|name| format!("XA {name}")).collect::<Vec<_>>());
    tell(subject, Check::MySqlPrepared, reported(lines), "none");
}

fn reported<T>(answer: postrider::Result<T>) -> Result<T, String> {
    answer.map_err(|error| error.one_line())
}

/// A connection to ask on.
struct Server {
    client: Conn,
}

impl Server {
    async fn ask<T: FromRow + Send + 'static>(&mut self, sql: &str) -> Result<Vec<T>, String> {
        self.client.query(sql).await.map_err(|error| error.to_string())
    }

    async fn clock(&mut self, subject: &mut Subject<'_>) {
        let sql = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
        let theirs = self.ask::<i64>(sql).await;
        let ours = SystemClock::new().now().wall.as_micros();
        match theirs.map(|theirs| theirs.first().copied().unwrap_or_default().abs_diff(ours)) {
            Ok(micros) if Duration::from_micros(micros) > CLOCK_SKEW_MAX => {
                let apart = age(Duration::from_micros(micros));
                subject.warn(Check::MySqlClock, format!("the clocks are {apart} apart"));
            }
            Ok(_) => subject.ok(Check::MySqlClock, "the clocks agree"),
            Err(error) => subject.warn(Check::MySqlClock, format!("cannot be checked: {error}")),
        }
    }

    async fn durable(&mut self, subject: &mut Subject<'_>) {
        let found = self.ask::<(String, String)>(DURABLE).await;
        let lines =
            found.map(|found| found.into_iter().map(|(name, value)| format!("{name} = {value}")).collect());
        tell(subject, Check::MySqlDurable, lines, "commits survive a crash");
    }

    async fn transactions(&mut self, age_max: Duration, subject: &mut Subject<'_>) {
        // The engine tells its times in the zone of the machine, whatever the server and the session say.
        let zone = self.client.query_drop("SET time_zone = 'SYSTEM'").await;
        let sql = TRANSACTIONS.replace("{age}", &age_max.as_secs().to_string());
        let found = match zone {
            Ok(()) => self.ask(&sql).await,
            Err(error) => Err(error.to_string()),
        };
        tell(subject, Check::MySqlTransactions, found, "no long-running transaction");
    }

    async fn excess(&mut self, subject: &mut Subject<'_>) {
        tell(subject, Check::MySqlExcess, self.ask(EXCESS).await, "only the privileges a relay needs");
    }

    /// Opening a store has read most of what a relay reads; what is left is to write.
    async fn rights(&mut self, schema: &Ident, subject: &mut Subject<'_>) {
        let name = schema.as_str();
        let sql = format!("UPDATE `{name}`.subscriptions SET clean = clean WHERE FALSE");
        let written =
            self.client.query_drop(sql).await.map(|()| Vec::new()).map_err(|error| error.to_string());
        tell(subject, Check::MySqlRights, written, "a relay can record its progress");
    }
}

/// A check whose findings are lines: none is good.
fn tell(subject: &mut Subject<'_>, check: Check, found: Result<Vec<String>, String>, good: &str) {
    match found {
        Ok(lines) if lines.is_empty() => subject.ok(check, good),
        Ok(lines) => subject.warn(check, lines.join("; ")),
        Err(error) => subject.warn(check, format!("cannot be checked: {error}")),
    }
}

//! The storm on MySQL and MariaDB.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use postrider::store::Store;
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider::{Code, Error, Ident, Result};
use postrider_testkit::servers::mysql::Kind;
use postrider_testkit::verify::Sighting;
use uuid::Uuid;

use super::database::{Database, Found, PollRequest, PollResult, Probe, Proof, Session};
use super::postgres::failed;

/// Within this time, a server ends a connection that was closed.
const SERVER_ENDS_CONNECTION: Duration = Duration::from_millis(150);

pub(crate) struct MySql {
    kind: Kind,
    url: String,
    schema: Ident,
    /// Whether the server lists which sessions have a table open.
    tells_locks: bool,
}

/// The longest time between taking a position and writing the row, for a store that depends on it; long enough for a
/// busy machine.
const STATEMENTS_END: Duration = Duration::from_millis(500);

impl MySql {
    /// Creates an outbox with this many keys. `url` is that of the server.
    pub(crate) async fn new(kind: Kind, url: &str, keys: u64) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let schema = Ident::new(&format!("storm_{}_{number}", std::process::id()))?;
        let storm = Self { kind, url: url.to_owned(), schema, tells_locks: true };
        MySqlStore::migrate(&storm.config()?).await?;
        let keys: String = (0..keys).map(|key| format!("('k{key}', 0), ")).collect();
        let sql = format!(
            "CREATE TABLE {{schema}}.names (name VARCHAR(20) COLLATE utf8mb4_bin PRIMARY KEY, version BIGINT NOT NULL)
             CHARACTER SET utf8mb4;
             CREATE TABLE {{schema}}.early (number BIGINT AUTO_INCREMENT PRIMARY KEY);
             INSERT INTO {{schema}}.names VALUES {keys} ('open', 0)"
        );
        run(&mut connect(&storm.url).await?, &storm.schema, &sql).await?;
        Ok(storm)
    }

    /// For a server that does not list which sessions have a table open.
    pub(crate) fn without_locks(self) -> Self {
        Self { tells_locks: false, ..self }
    }

    fn config(&self) -> Result<MySqlConfig> {
        let config = MySqlConfig::new(&self.url)?.schema(self.schema.clone());
        Ok(config.insert_duration_max(STATEMENTS_END))
    }
}

impl Database for MySql {
    type Session = MySqlSession;
    type Probe = MySqlProbe;

    async fn connect(&self) -> Result<MySqlSession> {
        let (url, schema) = (self.url.clone(), self.schema.clone());
        Ok(MySqlSession {
            conn: connect_to_write(&url).await?,
            url,
            schema,
            held: None,
            global: None,
            prepared: 0,
        })
    }

    fn patience(&self) -> u64 {
        if self.tells_locks { 1 } else { 8 }
    }

    async fn probe(&self) -> Result<MySqlProbe> {
        let mut conn = connect_to_write(&self.url).await?;
        // The engine reports times in the zone of the machine, whatever the zone of the session.
        conn.query_drop("SET time_zone = '-05:30'").await.map_err(failed)?;
        let (schema, seen) = (self.schema.clone(), BTreeSet::new());
        Ok(MySqlProbe { conn, schema, forgets_prepared: self.kind == Kind::MariaDb, seen })
    }

    async fn store(&self, proof: Proof) -> Result<Arc<dyn Store>> {
        let config = match proof {
            Proof::WritersAtOnce => self.config()?.check_rollbacks_after(Duration::ZERO),
            Proof::Default | Proof::HorizonOnly => self.config()?,
        };
        Ok(Arc::new(MySqlStore::connect(&config).await?))
    }

    async fn committed(&self) -> Result<Vec<Found>> {
        let sql = format!(
            "SELECT position, id, `key`, CAST(payload AS CHAR) FROM {}.events ORDER BY position",
            self.schema.as_str()
        );
        let rows: Vec<Row> = connect(&self.url).await?.query(sql).await.map_err(failed)?;
        rows.iter().map(found).collect()
    }

    async fn activity(&self) -> Result<String> {
        let sql = "SELECT CONCAT_WS(' ', id, command, time, state, LEFT(info, 120))
                   FROM information_schema.processlist WHERE id <> CONNECTION_ID()";
        let mut conn = connect(&self.url).await?;
        let rows: Vec<String> = conn.query(sql).await.map_err(failed)?;
        let prepared: Vec<Row> = conn.query("XA RECOVER").await.map_err(failed)?;
        Ok(format!("    {}\n    {} prepared\n", rows.join("\n    "), prepared.len()))
    }

    async fn remove(&self) -> Result<()> {
        run(&mut connect(&self.url).await?, &self.schema, "DROP DATABASE {schema}").await
    }
}

pub(crate) struct MySqlSession {
    conn: Conn,
    url: String,
    schema: Ident,
    /// The highest key locked in this transaction. These servers keep row locks after a rollback to a savepoint, so
    /// locking a lower key could cause a deadlock.
    held: Option<String>,
    /// The name under which the open transaction will be prepared.
    global: Option<String>,
    prepared: u64,
}

impl MySqlSession {
    /// Names of prepared transactions are shared by the whole server.
    fn named(&self, name: &str) -> String {
        format!("{} {name}", self.schema.as_str())
    }
}

impl Session for MySqlSession {
    async fn run(&mut self, sql: &str) -> Result<()> {
        run(&mut self.conn, &self.schema, sql).await
    }

    async fn begin(&mut self, prepared_as: Option<&str>) -> Result<()> {
        self.held = None;
        self.global = prepared_as.map(|name| self.named(name));
        match self.global.clone() {
            Some(global) => self.run(&format!("XA START '{global}'")).await,
            None => self.run("START TRANSACTION").await,
        }
    }

    async fn commit(&mut self) -> Result<()> {
        self.run("COMMIT").await
    }

    async fn rollback(&mut self) -> Result<()> {
        self.run("ROLLBACK").await
    }

    async fn prepare(&mut self, name: &str) -> Result<()> {
        let name = self.named(name);
        self.run(&format!("XA END '{name}'")).await?;
        self.run(&format!("XA PREPARE '{name}'")).await?;
        self.prepared += 1;
        // Every other time, its connection ends and, on MariaDB, its lock is released.
        if self.prepared.is_multiple_of(2) {
            self.conn = connect_to_write(&self.url).await?;
            // If MariaDB receives an XA COMMIT or ROLLBACK while the old connection is being closed, it loses track of
            // the transaction and leaves it prepared, with its locks, until the next start (ADR 26). No list shows when
            // it is safe.
            tokio::time::sleep(SERVER_ENDS_CONNECTION).await;
        }
        Ok(())
    }

    async fn decide(&mut self, name: &str, commit: bool) -> Result<()> {
        let end = if commit { "COMMIT" } else { "ROLLBACK" };
        let sql = format!("XA {end} '{}'", self.named(name));
        // The server may not have noticed yet that the other connection was closed.
        for _ in 0..1_000 {
            match self.conn.query_drop(&sql).await {
                Err(mysql_async::Error::Server(answer)) if answer.code == 1397 => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                answer => return answer.map_err(failed),
            }
        }
        Err(wrong("a prepared transaction is not found"))
    }

    /// Inserts a row into another table: the transaction gets a number, but no lock on the outbox.
    async fn register_early(&mut self) -> Result<()> {
        self.run("INSERT INTO {schema}.early VALUES ()").await
    }

    async fn write(&mut self, key: &str) -> Result<()> {
        let key = self.held.take().filter(|held| held.as_str() > key).unwrap_or_else(|| key.to_owned());
        let sql = format!(
            "UPDATE {{schema}}.names SET version = version + 1 WHERE name = '{key}';
             INSERT INTO {{schema}}.events (type, `key`, payload)
             SELECT 'raised', name, version FROM {{schema}}.names WHERE name = '{key}'"
        );
        self.held = Some(key);
        self.run(&sql).await
    }

    async fn write_many(&mut self, keys: &[String], versions: i64) -> Result<()> {
        let names = format!("'{}'", keys.join("', '"));
        let numbers: Vec<String> = (1..=versions).map(|n| format!("SELECT {n} AS n")).collect();
        let numbers = numbers.join(" UNION ALL ");
        // An UPDATE alone would lock its rows in any order. The number of positions that it takes is not known in
        // advance.
        self.run(&format!(
            "SELECT name FROM {{schema}}.names WHERE name IN ({names}) ORDER BY name FOR UPDATE;
             UPDATE {{schema}}.names SET version = version + {versions} WHERE name IN ({names});
             INSERT INTO {{schema}}.events (type, `key`, payload)
             SELECT 'raised', k.name, k.version - {versions} + numbers.n
             FROM {{schema}}.names AS k CROSS JOIN ({numbers}) AS numbers
             WHERE k.name IN ({names}) ORDER BY numbers.n, k.name"
        ))
        .await
    }

    /// The first row takes a position; the second has no type.
    async fn fail(&mut self) -> Result<()> {
        let bad = "INSERT INTO {schema}.events (type, payload) VALUES ('good', ''), ('', '')";
        self.run(bad).await.err().map(|_| ()).ok_or_else(|| wrong("an event without a type was accepted"))
    }
}

pub(crate) struct MySqlProbe {
    conn: Conn,
    schema: Ident,
    forgets_prepared: bool,
    /// All transactions that were ever listed.
    seen: BTreeSet<String>,
}

impl MySqlProbe {
    /// Queries every lock of a writer, twice: a lock may move to a place that the first query has already passed.
    async fn twice(&mut self, what: &str, only: &str) -> Result<BTreeSet<String>> {
        let sql = format!(
            "SELECT {what} FROM performance_schema.metadata_locks
             WHERE object_type = 'TABLE' AND object_schema = '{}' AND object_name = 'events'
               AND lock_type LIKE 'SHARED_WRITE%' AND {only}",
            self.schema.as_str()
        );
        let mut names: BTreeSet<String> = BTreeSet::new();
        for _ in 0..2 {
            names.extend(self.conn.query::<String, _>(&sql).await.map_err(failed)?);
        }
        Ok(names)
    }
}

impl Probe for MySqlProbe {
    /// By connection, which a prepared transaction keeps as long as it has a lock. While a transaction may be without a
    /// lock, no writer counts as finished.
    async fn writers(&mut self) -> Result<BTreeSet<String>> {
        let mut names = self.twice("CAST(owner_thread_id AS CHAR)", "TRUE").await?;
        self.seen.extend(names.iter().cloned());
        if self.forgets_prepared {
            let prepared: Vec<Row> = self.conn.query("XA RECOVER").await.map_err(failed)?;
            if !prepared.is_empty() {
                names.extend(self.seen.iter().cloned());
                names.insert("prepared".to_owned());
                self.seen.insert("prepared".to_owned());
            }
        }
        Ok(names)
    }

    async fn busy_writers(&mut self) -> Result<BTreeSet<String>> {
        let runs = "(SELECT t.processlist_command FROM performance_schema.threads AS t
                     WHERE t.thread_id = owner_thread_id) <> 'Sleep'";
        self.twice("CAST(owner_thread_id AS CHAR)", runs).await
    }

    async fn locks(&mut self) -> Result<BTreeSet<String>> {
        let mut names = self
            .twice("CONCAT_WS('/', owner_thread_id, owner_event_id, object_instance_begin)", "TRUE")
            .await?;
        if self.forgets_prepared {
            let prepared: Vec<Row> = self.conn.query("XA RECOVER").await.map_err(failed)?;
            names.extend(prepared.iter().filter_map(|row| row.get::<String, _>(3)));
        }
        Ok(names)
    }

    async fn begun(&mut self) -> Result<(Vec<i64>, i64)> {
        let since = |time: &str| format!("TIMESTAMPDIFF(SECOND, '2020-01-01', {time})");
        let sql = format!("SELECT {} FROM information_schema.innodb_trx", since("trx_started"));
        let begun: Vec<i64> = self.conn.query(sql).await.map_err(failed)?;
        let now: Option<i64> =
            self.conn.query_first(format!("SELECT {}", since("NOW()"))).await.map_err(failed)?;
        Ok((begun, now.unwrap_or(0)))
    }

    async fn transactions(&mut self) -> Result<BTreeSet<String>> {
        // Transactions that only read have no number, or one derived from an address.
        let sql = "SELECT CAST(trx_id AS CHAR) FROM information_schema.innodb_trx
                   WHERE trx_id BETWEEN 1 AND 281474976710655";
        let names: Vec<String> = self.conn.query(sql).await.map_err(failed)?;
        Ok(names.into_iter().collect())
    }

    async fn poll(&mut self, asked: PollRequest<'_>) -> Result<PollResult> {
        let holes: String = asked.holes.iter().map(|hole| format!(", {hole}")).collect();
        let limit = asked.holes_limit;
        let above = asked.above.unwrap_or(i64::MAX);
        let sql = format!(
            "SELECT * FROM (
                 (SELECT position, id, `key`, CAST(payload AS CHAR) FROM {0}.events
                  WHERE position IN (0{holes}) ORDER BY position LIMIT {limit})
                 UNION ALL
                 SELECT position, id, `key`, CAST(payload AS CHAR) FROM {0}.events WHERE position > {above}
             ) AS found ORDER BY position",
            self.schema.as_str()
        );
        let rows: Vec<Row> = self.conn.query(sql).await.map_err(failed)?;
        Ok(PollResult { found: rows.iter().map(found).collect::<Result<_>>()?, ..PollResult::default() })
    }

    async fn below_horizon(&mut self, _after: (i64, i64)) -> Result<Vec<(i64, Found)>> {
        Err(wrong("these servers write no transaction's number next to its rows"))
    }
}

/// Position, id, key and version.
fn found(row: &Row) -> Result<Found> {
    let get = |column| row.get::<String, _>(column).ok_or_else(|| wrong("a column is missing"));
    let id: Vec<u8> = row.get(1).ok_or_else(|| wrong("an id is missing"))?;
    let sighting = Sighting {
        id: Uuid::from_slice(&id).map_err(failed)?,
        key: get(2)?,
        version: get(3)?.parse().map_err(failed)?,
    };
    Ok(Found { position: get(0)?.parse().map_err(failed)?, sighting })
}

async fn connect(url: &str) -> Result<Conn> {
    Conn::from_url(url).await.map_err(failed)
}

/// With the server's default, an `INSERT ... SELECT` locks the rows that it reads, and the writers of the storm would
/// deadlock.
async fn connect_to_write(url: &str) -> Result<Conn> {
    let mut conn = connect(url).await?;
    conn.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.map_err(failed)?;
    Ok(conn)
}

async fn run(conn: &mut Conn, schema: &Ident, sql: &str) -> Result<()> {
    conn.query_drop(sql.replace("{schema}", schema.as_str())).await.map_err(failed)
}

fn wrong(what: &str) -> Error {
    Error::new(Code::StoreFailed, what)
}

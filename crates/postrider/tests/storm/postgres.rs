//! The storm on PostgreSQL.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postrider::store::Store;
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::{Code, Error, Event, Ident, Outbox, Result};
use postrider_testkit::verify::Sighting;
use tokio_postgres::{Client, NoTls, Row};

use super::database::{Database, Found, PollRequest, PollResult, Probe, Proof, Session};

pub(crate) struct Postgres {
    url: &'static str,
    schema: Ident,
    client: Client,
}

impl Postgres {
    /// Creates an outbox with this many keys. `url` is that of the server.
    pub(crate) async fn new(url: &'static str, keys: u64) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let schema = Ident::new(&format!("storm_{}_{number}", std::process::id()))?;
        let storm = Self { url, schema, client: connect(url).await? };
        PostgresStore::migrate(&PostgresConfig::new(url)?.schema(storm.schema.clone())).await?;
        // The index is for the reader in the order of transactions, which would otherwise be too slow to be detected.
        let keys = format!(
            "CREATE TABLE {{schema}}.keys (key text PRIMARY KEY, version bigint NOT NULL) WITH (fillfactor = 20);
             INSERT INTO {{schema}}.keys VALUES ('open', 0);
             INSERT INTO {{schema}}.keys SELECT 'k' || n, 0 FROM generate_series(0, {keys} - 1) AS n;
             CREATE INDEX by_transaction ON {{schema}}.events (tx, position)"
        );
        storm.client.batch_execute(&storm.sql(&keys)).await.map_err(failed)?;
        storm.make_users().await?;
        Ok(storm)
    }

    /// A user with the relay's role and one with the writer's, created by the library's script.
    async fn make_users(&self) -> Result<()> {
        let users = "CREATE ROLE {schema}_relay_user LOGIN IN ROLE {schema}_relay, pg_read_all_stats;
                     CREATE ROLE {schema}_writer_user LOGIN IN ROLE {schema}_writer;
                     GRANT SELECT, UPDATE ON {schema}.keys TO {schema}_writer";
        let roles = PostgresStore::roles(&self.schema)?;
        self.client.batch_execute(&format!("{roles};{}", self.sql(users))).await.map_err(failed)
    }

    fn url_of(&self, role: &str) -> String {
        self.url.replacen("postgres@", &format!("{}_{role}_user@", self.schema.as_str()), 1)
    }

    fn config(&self) -> Result<PostgresConfig> {
        Ok(PostgresConfig::new(&self.url_of("relay"))?.schema(self.schema.clone()))
    }

    fn sql(&self, text: &str) -> String {
        text.replace("{schema}", self.schema.as_str())
    }
}

impl Database for Postgres {
    type Session = PostgresSession;
    type Probe = PostgresProbe;

    async fn connect(&self) -> Result<PostgresSession> {
        let client = connect(&self.url_of("writer")).await?;
        let outbox = Outbox::anonymous().schema(self.schema.clone());
        Ok(PostgresSession { client, outbox, schema: self.schema.clone() })
    }

    async fn probe(&self) -> Result<PostgresProbe> {
        let client = connect(self.url).await?;
        client.batch_execute("SET enable_seqscan = off").await.map_err(failed)?;
        Ok(PostgresProbe { client, schema: self.schema.clone() })
    }

    async fn store(&self, proof: Proof) -> Result<Arc<dyn Store>> {
        let config = match proof {
            Proof::Default => self.config()?,
            Proof::WritersAtOnce => self.config()?.check_rollbacks_after(Duration::ZERO),
            Proof::HorizonOnly => self.config()?.check_rollbacks_after(Duration::MAX),
        };
        Ok(Arc::new(PostgresStore::connect(&config).await?))
    }

    async fn committed(&self) -> Result<Vec<Found>> {
        let sql = self.sql(
            "SELECT position, id, key, convert_from(payload, 'UTF8')::bigint
             FROM {schema}.events ORDER BY position",
        );
        self.client.query(&sql, &[]).await.map_err(failed)?.iter().map(|row| found(row, 0)).collect()
    }

    async fn activity(&self) -> Result<String> {
        let sql = "
            SELECT format('%s %s, since %s, waits for %s %s: %s', pid, coalesce(state, backend_type),
                          date_trunc('milliseconds', now() - xact_start), coalesce(wait_event, 'nothing'),
                          pg_blocking_pids(pid), left(regexp_replace(query, '\\s+', ' ', 'g'), 120))
            FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
            UNION ALL
            SELECT format('prepared %s: %s', prepared, gid) FROM pg_prepared_xacts";
        // On another connection: the first may be the one that is stuck.
        let rows = connect(self.url).await?.query(sql, &[]).await.map_err(failed)?;
        Ok(rows.iter().map(|row| format!("    {}\n", row.get::<_, String>(0))).collect())
    }

    async fn remove(&self) -> Result<()> {
        self.client.batch_execute(&self.sql("DROP SCHEMA {schema} CASCADE")).await.map_err(failed)
    }
}

pub(crate) struct PostgresSession {
    client: Client,
    outbox: Outbox,
    schema: Ident,
}

impl PostgresSession {
    /// Names of prepared transactions are shared by the whole server.
    fn named(&self, name: &str) -> String {
        format!("{} {name}", self.schema.as_str())
    }
}

impl Session for PostgresSession {
    async fn run(&mut self, sql: &str) -> Result<()> {
        self.client.batch_execute(&sql.replace("{schema}", self.schema.as_str())).await.map_err(failed)
    }

    async fn begin(&mut self, _prepared_as: Option<&str>) -> Result<()> {
        self.run("BEGIN").await
    }

    async fn commit(&mut self) -> Result<()> {
        self.run("COMMIT").await
    }

    async fn rollback(&mut self) -> Result<()> {
        self.run("ROLLBACK").await
    }

    async fn prepare(&mut self, name: &str) -> Result<()> {
        self.run(&format!("PREPARE TRANSACTION '{}'", self.named(name))).await
    }

    async fn decide(&mut self, name: &str, commit: bool) -> Result<()> {
        let end = if commit { "COMMIT" } else { "ROLLBACK" };
        self.run(&format!("{end} PREPARED '{}'", self.named(name))).await
    }

    async fn register_early(&mut self) -> Result<()> {
        self.run("SELECT pg_current_xact_id()").await
    }

    async fn write(&mut self, key: &str) -> Result<()> {
        let raise = "UPDATE {schema}.keys SET version = version + 1 WHERE key = $1 RETURNING version";
        let raise = raise.replace("{schema}", self.schema.as_str());
        let row = self.client.query_one(&raise, &[&key]).await.map_err(failed)?;
        let version: i64 = row.try_get(0).map_err(failed)?;
        let event = Event::new("raised", version.to_string()).with_key(key);
        self.outbox.write(&self.client, event).await.map(|_| ())
    }

    async fn write_many(&mut self, keys: &[String], versions: i64) -> Result<()> {
        // An UPDATE alone would lock its rows in any order.
        let sql = "
            WITH locked AS MATERIALIZED (
                SELECT key FROM {schema}.keys WHERE key = ANY ($1) ORDER BY key FOR UPDATE
            ), raised AS (
                UPDATE {schema}.keys AS k SET version = version + $2 FROM locked AS l
                WHERE k.key = l.key RETURNING k.key, k.version - $2 AS before
            )
            INSERT INTO {schema}.events (type, key, payload)
            SELECT 'raised', key, convert_to((before + n)::text, 'UTF8')
            FROM raised CROSS JOIN generate_series(1, $2) AS n
            ORDER BY n, key";
        let sql = sql.replace("{schema}", self.schema.as_str());
        self.client.execute(&sql, &[&keys, &versions]).await.map_err(failed).map(|_| ())
    }

    async fn fail(&mut self) -> Result<()> {
        let bad = "INSERT INTO {schema}.events (type, payload) VALUES ('', '')";
        self.run(bad).await.err().map(|_| ()).ok_or_else(|| wrong("an event without a type was accepted"))
    }
}

pub(crate) struct PostgresProbe {
    client: Client,
    schema: Ident,
}

impl PostgresProbe {
    async fn query(
        &self,
        sql: &str,
        params: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let sql = sql.replace("{schema}", self.schema.as_str());
        self.client.query(&sql, params).await.map_err(failed)
    }

    async fn writers_where(&self, condition: &str) -> Result<BTreeSet<String>> {
        let sql = "
            WITH locks AS MATERIALIZED (SELECT * FROM pg_locks WHERE granted)
            SELECT w.virtualtransaction || coalesce(' ' || t.transactionid::text, '')
            FROM locks AS w
            LEFT JOIN locks AS t ON t.virtualtransaction = w.virtualtransaction
                                AND t.locktype = 'transactionid' AND t.mode = 'ExclusiveLock'
            WHERE w.locktype = 'relation' AND w.mode = 'RowExclusiveLock'
              AND w.relation = '{schema}.events'::regclass AND ";
        // A prepared transaction may change its virtual id, but never its transaction id; without a transaction id it
        // has written nothing.
        let rows = self.query(&format!("{sql}{condition}"), &[]).await?;
        let names = rows.iter().filter_map(|row| {
            let name: String = row.get(0);
            name.split_once(' ').map(|(_, number)| number.to_owned())
        });
        Ok(names.collect())
    }
}

impl Probe for PostgresProbe {
    async fn writers(&mut self) -> Result<BTreeSet<String>> {
        self.writers_where("true").await
    }

    async fn busy_writers(&mut self) -> Result<BTreeSet<String>> {
        self.writers_where("w.pid IN (SELECT pid FROM pg_stat_activity WHERE state = 'active')").await
    }

    async fn poll(&mut self, asked: PollRequest<'_>) -> Result<PollResult> {
        // An empty poll still returns a horizon: at least one row.
        let sql = "
            WITH found AS (
                (SELECT position, id, key, payload FROM {schema}.events
                 WHERE position = ANY ($1) ORDER BY position LIMIT $2)
                UNION ALL
                SELECT position, id, key, payload FROM {schema}.events WHERE position > $3
            )
            SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint,
                   position, id, key, convert_from(payload, 'UTF8')::bigint
            FROM pg_current_snapshot() AS s LEFT JOIN found ON true
            ORDER BY position";
        let above = asked.above.unwrap_or(i64::MAX);
        let rows = self.query(sql, &[&asked.holes, &asked.holes_limit, &above]).await?;
        let mut poll = PollResult::default();
        for row in rows {
            (poll.xmin, poll.xmax) = (row.get(0), row.get(1));
            if row.get::<_, Option<i64>>(2).is_some() {
                poll.found.push(found(&row, 2)?);
            }
        }
        Ok(poll)
    }

    async fn below_horizon(&mut self, (tx, position): (i64, i64)) -> Result<Vec<(i64, Found)>> {
        let sql = "
            SELECT tx::text::bigint, position, id, key, convert_from(payload, 'UTF8')::bigint
            FROM {schema}.events
            WHERE (tx, position) > ($1::bigint::text::xid8, $2)
              AND tx < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY tx, position";
        let rows = self.query(sql, &[&tx, &position]).await?;
        rows.iter().map(|row| Ok((row.get(0), found(row, 1)?))).collect()
    }
}

/// Position, id, key and version, from this column on.
fn found(row: &Row, first: usize) -> Result<Found> {
    let version: i64 = row.try_get(first + 3).map_err(failed)?;
    let sighting = Sighting {
        id: row.try_get(first + 1).map_err(failed)?,
        key: row.try_get(first + 2).map_err(failed)?,
        version: u64::try_from(version).map_err(failed)?,
    };
    Ok(Found { position: row.try_get(first).map_err(failed)?, sighting })
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
    tokio::spawn(connection);
    Ok(client)
}

fn wrong(what: &str) -> Error {
    Error::new(Code::StoreFailed, what)
}

pub(crate) fn failed(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Code::StoreFailed, "the storm could not do its part").with_source(cause)
}

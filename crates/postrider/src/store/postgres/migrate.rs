//! Migrates a database to the schema of this program, and checks its version.

use tokio_postgres::Client;
use tokio_postgres::types::FromSqlOwned;

use super::failure::{commit_failed, failed};
use super::pooler::settings_here;
use super::session::Session;
use super::shape::{self, SHAPE};
use super::statement::query_unnamed;
use crate::store::schema::{self, Migrated, Migration, Schema};
use crate::{Ident, Result};

/// Every migration, oldest first, numbered from 1. A released one never changes.
const MIGRATIONS: &[&str] = &[
    concat!(include_str!("migrations/0001_outbox.sql"), "\n", include_str!("migrations/0001_leases.sql")),
    include_str!("migrations/0002_inbox.sql"),
    include_str!("migrations/0003_actions.sql"),
    concat!(include_str!("migrations/0004_operate.sql"), "\n", include_str!("migrations/0004_audit.sql")),
    include_str!("migrations/0005_heartbeat.sql"),
];

/// The table of applied migrations, created before the first one.
const MIGRATIONS_TABLE: &str = "CREATE TABLE IF NOT EXISTS {schema}.migrations (
    version    bigint PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);

";

/// The schema version of this program.
const LATEST: i64 = MIGRATIONS.len() as i64;

/// The name of the database in messages.
const PLACE: &str = "the PostgreSQL database";

/// Applies the missing migrations, all of them or none. Several processes may do so at once: one of them applies the
/// migrations, and the others wait for it.
pub(super) async fn migrate(session: &mut Session, name: &Ident) -> Result<Migrated> {
    let tx = session.client.transaction().await.map_err(failed)?;
    tx.batch_execute(settings_here!()).await.map_err(failed)?;
    lock(tx.client(), name).await?;
    // `CREATE SCHEMA IF NOT EXISTS` would need the right to create a schema even if it exists.
    let missing = "SELECT to_regnamespace($1) IS NULL";
    if answer(tx.client(), missing, name).await?.unwrap_or(false) {
        tx.batch_execute(&name.put_into("CREATE SCHEMA {schema}")).await.map_err(failed)?;
    }
    let from = version(tx.client(), name).await?;
    schema::refuse_newer(PLACE, from, LATEST)?;
    if from > 0 {
        refuse_missing(tx.client(), name).await?;
    }
    for migration in all(name).filter(|migration| migration.version > from) {
        tx.batch_execute(&migration.sql).await.map_err(failed)?;
    }
    tx.commit().await.map_err(commit_failed)?;
    Ok(Migrated { from, to: LATEST })
}

/// Waits until no other process migrates, and keeps others from migrating until the transaction ends.
pub(super) async fn lock(client: &Client, name: &Ident) -> Result<()> {
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('postrider migrations of ' || $1, 0))";
    query_unnamed(client, lock, &[&name.as_str()]).await.map_err(failed).map(drop)
}

/// Every migration, as a user would run it in an existing schema.
pub(super) fn all(name: &Ident) -> impl Iterator<Item = Migration> {
    (1..).zip(MIGRATIONS).map(|(version, sql)| {
        let table = if version == 1 { MIGRATIONS_TABLE } else { "" };
        let entry = format!("INSERT INTO {{schema}}.migrations (version) VALUES ({version});");
        Migration { version, sql: name.put_into(&format!("{table}{}\n\n{entry}\n", sql.trim_end())) }
    })
}

/// The schema version of a database, and that of this program.
pub(super) async fn schema(client: &Client, name: &Ident) -> Result<Schema> {
    Ok(Schema { found: version(client, name).await?, needed: LATEST })
}

/// Refuses a database with another schema version, or whose outbox was altered.
pub(super) async fn check(client: &Client, name: &Ident) -> Result<()> {
    let database = format!("the PostgreSQL database, in {name},");
    schema::check(&database, version(client, name).await?, LATEST)?;
    refuse_missing(client, name).await?;
    let rows = query_unnamed(client, &name.put_into(SHAPE), &[]).await.map_err(failed)?;
    shape::check(&rows)
}

/// Refuses a schema some of whose tables were dropped.
async fn refuse_missing(client: &Client, name: &Ident) -> Result<()> {
    let mut missing = Vec::new();
    for table in schema::TABLES {
        let sql = format!("SELECT to_regclass($1 || '.{table}') IS NULL");
        if answer(client, &sql, name).await?.unwrap_or(false) {
            missing.push(format!("{name}.{table}"));
        }
    }
    schema::refuse_missing(PLACE, &missing)
}

async fn version(client: &Client, name: &Ident) -> Result<i64> {
    let known = "SELECT to_regclass($1 || '.migrations') IS NOT NULL";
    if !answer(client, known, name).await?.unwrap_or(false) {
        return Ok(0);
    }
    let sql = name.put_into("SELECT max(version) FROM {schema}.migrations");
    let rows = query_unnamed(client, &sql, &[]).await.map_err(failed)?;
    let newest = rows.first().map_or(Ok(None), |row| row.try_get::<_, Option<i64>>(0)).map_err(failed)?;
    Ok(newest.unwrap_or(0))
}

/// The first value of the first row. The statement's parameter is the schema's name in quotes.
async fn answer<T: FromSqlOwned>(client: &Client, sql: &str, name: &Ident) -> Result<Option<T>> {
    let rows = query_unnamed(client, sql, &[&name.to_string()]).await.map_err(failed)?;
    rows.first().map(|row| row.try_get(0)).transpose().map_err(failed)
}

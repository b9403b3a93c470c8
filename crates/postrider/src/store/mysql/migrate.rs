//! Migrates a database to the schema of this program, and checks its version.

use super::row::{get, get_opt};
use super::session::{Access, Params, Session, params};
use crate::store::schema::{self, Migrated, Migration, Schema};
use crate::{Code, Error, Ident, Result};

/// Every migration, oldest first, numbered from 1. A released one never changes. These servers commit every CREATE
/// immediately, so each migration must be safe to run again after an interruption.
const MIGRATIONS: &[&str] = &[
    concat!(include_str!("migrations/0001_outbox.sql"), "\n", include_str!("migrations/0001_leases.sql")),
    include_str!("migrations/0002_empty_positions.sql"),
    include_str!("migrations/0003_inbox.sql"),
    include_str!("migrations/0004_actions.sql"),
    concat!(include_str!("migrations/0005_operate.sql"), "\n", include_str!("migrations/0005_audit.sql")),
    include_str!("migrations/0006_heartbeat.sql"),
];

/// The database, and the table of applied migrations, created before the first one. The row of the first migration is
/// also the lock of retention.
const MIGRATIONS_TABLE: &str = "CREATE DATABASE IF NOT EXISTS {schema};
USE {schema};
CREATE TABLE IF NOT EXISTS {schema}.migrations (
    version    BIGINT NOT NULL PRIMARY KEY,
    applied_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

";

/// The schema version of this program.
const LATEST: i64 = MIGRATIONS.len() as i64;

/// The name of the database in messages.
const PLACE: &str = "the database";

/// How long to wait for another process that migrates, in seconds.
const WAIT_SECONDS: i64 = 20;

/// Applies the missing migrations. Several processes may do so at once: one of them applies the migrations, and the
/// others wait for it. If it is interrupted, run it again.
pub(super) async fn migrate(session: &mut Session) -> Result<Migrated> {
    let lock = lock(session).await?;
    let migrated = apply(session).await;
    unlock(session, &lock).await?;
    migrated
}

/// Waits until no other process migrates. Returns the name of the lock, for [`unlock`].
pub(super) async fn lock(session: &mut Session) -> Result<String> {
    let lock = format!("postrider migrations {}", session.schema().as_str());
    // The name of a lock is limited to 64 characters.
    let lock: String = lock.chars().take(64).collect();
    let taken = session
        .autocommit(Access::Reads, "SELECT GET_LOCK(?, ?)", params![lock.as_str(), WAIT_SECONDS])
        .await?;
    if taken.first().map(|row| get_opt::<i64>(row, 0)).transpose()?.flatten() != Some(1) {
        return Err(Error::new(Code::StoreBusy, "another process is migrating the database"));
    }
    Ok(lock)
}

pub(super) async fn unlock(session: &mut Session, lock: &str) -> Result<()> {
    session.autocommit(Access::Reads, "SELECT RELEASE_LOCK(?)", params![lock]).await.map(drop)
}

async fn apply(session: &mut Session) -> Result<Migrated> {
    let from = version(session).await?;
    schema::refuse_newer(PLACE, from, LATEST)?;
    if from > 0 {
        refuse_missing(session).await?;
    }
    for migration in all(&session.schema().clone()).filter(|migration| migration.version > from) {
        session.several(Access::Writes, &migration.sql).await?;
    }
    Ok(Migrated { from, to: LATEST })
}

/// Every migration, as a user would run it.
pub(super) fn all(name: &Ident) -> impl Iterator<Item = Migration> {
    (1..).zip(MIGRATIONS).map(|(version, sql)| {
        let table = if version == 1 { MIGRATIONS_TABLE } else { "USE {schema};\n" };
        let entry = format!(
            "INSERT INTO {{schema}}.migrations (version) VALUES ({version}) ON DUPLICATE KEY UPDATE version = version;"
        );
        Migration { version, sql: name.put_into_mysql(&format!("{table}{}\n\n{entry}\n", sql.trim_end())) }
    })
}

/// The schema version of a database, and that of this program.
pub(super) async fn schema(session: &mut Session) -> Result<Schema> {
    Ok(Schema { found: version(session).await?, needed: LATEST })
}

/// Refuses a database with another schema version, or whose outbox was altered.
pub(super) async fn check(session: &mut Session) -> Result<()> {
    let name = session.schema().as_str().to_owned();
    schema::check(&format!("the database {name}"), version(session).await?, LATEST)?;
    refuse_missing(session).await?;
    // Another storage engine may not roll back and may not lock; positions must come from the counter. Index: that of
    // the dictionary, by name, for each of the two: MariaDB opens all tables of the server for a name that comes from
    // the other one.
    let sql = "SELECT t.engine = 'InnoDB' AND c.extra LIKE '%auto_increment%' AND c.column_key = 'PRI'
               FROM information_schema.tables AS t
               JOIN information_schema.columns AS c ON c.column_name = 'position'
               WHERE t.table_schema = ? AND t.table_name = 'events'
                 AND c.table_schema = ? AND c.table_name = 'events'";
    let rows = session.autocommit(Access::Reads, sql, params![name.as_str(), name.as_str()]).await?;
    if rows.first().map(|row| get_opt::<i64>(row, 0)).transpose()?.flatten() == Some(1) {
        return Ok(());
    }
    let what = format!("{name}.events differs from what the migrations created");
    Err(Error::new(Code::SchemaAltered, what)
        .with_hint("it must be an InnoDB table with position BIGINT AUTO_INCREMENT as its primary key"))
}

/// Refuses a database some of whose tables were dropped.
async fn refuse_missing(session: &mut Session) -> Result<()> {
    // Index: that of the dictionary, by name.
    let sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = ?";
    let name = session.schema().as_str().to_owned();
    let rows = session.autocommit(Access::Reads, sql, params![name.as_str()]).await?;
    let there = rows.iter().map(|row| get::<String>(row, 0)).collect::<Result<Vec<_>>>()?;
    let gone = schema::TABLES.into_iter().filter(|table| !there.iter().any(|known| known == table));
    let missing: Vec<String> = gone.map(|table| format!("{name}.{table}")).collect();
    schema::refuse_missing(PLACE, &missing)
}

async fn version(session: &mut Session) -> Result<i64> {
    // Index: that of the dictionary, by name.
    let known = "SELECT COUNT(*) FROM information_schema.tables
                 WHERE table_schema = ? AND table_name = 'migrations'";
    let name = session.schema().as_str().to_owned();
    let rows = session.autocommit(Access::Reads, known, params![name.as_str()]).await?;
    if rows.first().map_or(Ok(0), |row| get::<i64>(row, 0))? == 0 {
        return Ok(0);
    }
    let newest = session
        .autocommit(Access::Reads, "SELECT MAX(version) FROM {schema}.migrations", Params::new())
        .await?;
    Ok(newest.first().map(|row| get_opt::<i64>(row, 0)).transpose()?.flatten().unwrap_or(0))
}

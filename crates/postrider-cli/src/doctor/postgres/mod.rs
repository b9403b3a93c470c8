//! Checks of a PostgreSQL database.
//!
//! 1. `privileges`: those of this user, and those of other users
//! 2. `health`: clock, durability, transactions, bloat
//! 3. `inbox`: expired rows of the inbox, and the inbox table of the layout `outbox`
//!
//! Every check is one statement that changes nothing; a statement that fails is a warning.

mod health;
mod inbox;
mod privileges;

use std::time::Duration;

use postrider::layout::RowTable;
use postrider::store::postgres::{BEGIN_GUARDED, Pooler, PostgresConfig, PostgresRowStore, PostgresStore};
use postrider::{Code, Error, Ident, Result};
use tokio_postgres::types::{FromSqlOwned, ToSql, Type};
use tokio_postgres::{Client, Row};

pub(crate) use inbox::inbox_health;

use super::server::Server;
use super::{Check, Options, Subject, layout};

/// Checks the server. Returns whether its tables can be read.
pub(crate) async fn check(
    server: Server<'_, PostgresConfig>,
    options: &Options,
    subject: &mut Subject<'_>,
) -> bool {
    let Server { config, schema, admin, shown } = server;
    let (client, is_pooled) = match config.guarded_client().await {
        Ok(opened) => opened,
        Err(error) => {
            subject.refused(Check::Readable, &error);
            return false;
        }
    };
    subject.ok(Check::Readable, format!("{shown} is reachable"));
    super::server::encryption(config.is_exposed(), Check::PostgresEncrypted, subject);
    let queries = Queries { client, schema };
    queries.version(subject).await;
    queries.clock(subject).await;
    queries.durable(subject).await;
    queries.transactions(options.transaction_age_max, subject).await;
    queries.prepared(options.transaction_age_max, subject).await;
    if let Some(rows) = admin.row_table() {
        inbox::check(config, rows, subject).await;
        let usable = layout::check(admin, rows, subject).await;
        if usable {
            row_table(config, rows, subject).await;
            pooler(config, Ok(is_pooled), subject);
            queries.missing_for_rows(rows, subject).await;
            queries.excess_for_rows(rows, subject).await;
        }
        return usable;
    }
    let store = tables(config, subject).await;
    let usable = store.is_some();
    if let Some(store) = store {
        pooler(config, store.is_pooled().await, subject);
        store.close().await;
        queries.missing(subject).await;
        queries.excess(subject).await;
        queries.writers(subject).await;
        queries.sequence(subject).await;
        queries.bloat(subject).await;
    }
    usable
}

/// Whether a store can be opened: version, schema, and an outbox as the migrations create it.
async fn tables(config: &PostgresConfig, subject: &mut Subject<'_>) -> Option<PostgresStore> {
    let schema = PostgresStore::schema(config).await;
    match PostgresStore::connect(config).await {
        Ok(store) => {
            let found = schema.map(|schema| schema.found).unwrap_or_default();
            subject.ok(Check::SchemaCurrent, format!("schema {found}"));
            subject.ok(Check::PostgresRowSecurity, "no policy hides rows from this user");
            subject.ok(Check::PostgresEncoding, "UTF8");
            subject.ok(Check::PostgresPositions, "positions are assigned as the migrations define it");
            Some(store)
        }
        Err(error) => {
            subject.refused(check_of(&error), &error);
            None
        }
    }
}

/// Whether a store for a table with a state per row can be opened: version, a primary, encoding, and no hidden rows.
async fn row_table(config: &PostgresConfig, rows: &RowTable, subject: &mut Subject<'_>) {
    match PostgresRowStore::connect(config, rows).await {
        Ok(store) => {
            store.close().await;
            subject.ok(Check::PostgresEncoding, "UTF8");
        }
        Err(error) => subject.refused(check_of(&error), &error),
    }
}

/// The check that an error of opening a store belongs to.
fn check_of(error: &Error) -> Check {
    match error.code() {
        Code::ServerTooOld | Code::StoreReadOnly => Check::PostgresVersion,
        Code::PrivilegeMissing => Check::PostgresPrivileges,
        Code::RowsHidden => Check::PostgresRowSecurity,
        Code::EncodingUnfit => Check::PostgresEncoding,
        Code::SchemaAltered => Check::PostgresPositions,
        _ => Check::SchemaCurrent,
    }
}

/// Whether the connection goes through a pooler as configured.
fn pooler(config: &PostgresConfig, is_pooled: Result<bool>, subject: &mut Subject<'_>) {
    let check = Check::PostgresPooler;
    match (is_pooled, config.listens()) {
        (Ok(false), _) => subject.ok(check, "a direct connection"),
        (Ok(true), false) if config.pooler_choice() == Pooler::Transaction => {
            subject.ok(check, "a pooler in transaction mode, as configured")
        }
        (Ok(true), false) => subject.warn(check, "the connection goes through a pooler in transaction mode"),
        (Ok(true), true) => subject.warn(
            check,
            "the connection goes through a pooler in transaction mode: LISTEN does not work, the relay polls",
        ),
        (Err(error), _) => subject.unchecked(check, &error.one_line()),
    }
}

/// A connection for the queries of the checks.
struct Queries<'a> {
    client: Client,
    schema: &'a Ident,
}

impl Queries<'_> {
    /// The first column of each row. `{schema}` is replaced with the quoted schema.
    async fn query<T: FromSqlOwned>(&self, sql: &str) -> std::result::Result<Vec<T>, String> {
        self.query_with(sql, &[]).await
    }

    /// As `query`, with the seconds of an age as `$1`.
    async fn query_older_than(&self, sql: &str, age: Duration) -> std::result::Result<Vec<String>, String> {
        self.query_with(sql, &[(&age.as_secs_f64(), Type::FLOAT8)]).await
    }

    async fn query_with<T: FromSqlOwned>(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> std::result::Result<Vec<T>, String> {
        let rows = self.rows(sql, params).await?;
        rows.iter().map(|row| row.try_get(0).map_err(|error| message_of(&error))).collect()
    }

    /// Uses unnamed statements, which work through a pooler.
    async fn rows(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> std::result::Result<Vec<Row>, String> {
        let sql = sql.replace("{schema}", &self.schema.to_string());
        // In a transaction, so that behind a pooler all statements use the same session settings.
        let asked = async {
            self.client.batch_execute(BEGIN_GUARDED).await?;
            let rows = self.client.query_typed(&sql, params).await;
            self.client.batch_execute("ROLLBACK").await?;
            rows
        };
        asked.await.map_err(|error| message_of(&error))
    }
}

fn message_of(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |answer| answer.message().to_owned())
}

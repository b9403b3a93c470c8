//! What is particular about a PostgreSQL database.
//!
//! 1. `rights`: what this user may do, and what others may not
//! 2. `server`: clock, durability, transactions, bloat
//! 3. `inbox`: the inbox beside a table of layout `outbox`
//!
//! Every question is one statement that changes nothing; one that cannot be answered is a warning.

mod inbox;
mod rights;
mod server;

use std::time::Duration;

use postrider::store::Store;
use postrider::store::postgres::{BEGIN_GUARDED, Pooler, PostgresConfig, PostgresStore};
use postrider::{Code, Ident};
use tokio_postgres::Client;
use tokio_postgres::types::{FromSqlOwned, ToSql, Type};

use super::{Check, Options, Subject, layout};

/// Checks the server, and answers whether its tables can be read.
pub(crate) async fn check(
    server: super::Server<'_, PostgresConfig>,
    options: &Options,
    subject: &mut Subject<'_>,
) -> bool {
    let super::Server { config, schema, admin, shown } = server;
    let client = match config.guarded_client().await {
        Ok((client, _)) => client,
        Err(error) => {
            subject.refused(Check::Readable, &error);
            return false;
        }
    };
    subject.ok(Check::Readable, format!("{shown} is reachable"));
    if config.is_exposed() {
        subject.warn(Check::PostgresEncrypted, "the connection is not encrypted");
    } else {
        subject.ok(Check::PostgresEncrypted, "encrypted, or local to this machine");
    }
    let server = Server { client, schema };
    server.version(subject).await;
    server.clock(subject).await;
    server.durable(subject).await;
    server.transactions(options.transaction_age_max, subject).await;
    server.prepared(options.transaction_age_max, subject).await;
    if let Some(rows) = admin.row_table() {
        inbox::check(config, rows, subject).await;
        return layout::check(admin, rows, subject).await;
    }
    let store = tables(config, subject).await;
    let usable = store.is_some();
    if let Some(store) = store {
        pooler(config, &store, subject).await;
        store.close().await;
        server.rights(subject).await;
        server.excess(subject).await;
        server.writers(subject).await;
        server.sequence(subject).await;
        server.bloat(subject).await;
    }
    usable
}

/// Whether a store can be opened: version, schema, and an outbox as the migrations made it.
async fn tables(config: &PostgresConfig, subject: &mut Subject<'_>) -> Option<PostgresStore> {
    let schema = PostgresStore::schema(config).await;
    match PostgresStore::connect(config).await {
        Ok(store) => {
            let found = schema.map(|schema| schema.found).unwrap_or_default();
            subject.ok(Check::SchemaCurrent, format!("schema {found}"));
            subject.ok(Check::PostgresRowSecurity, "no policy hides rows from this user");
            subject.ok(Check::PostgresEncoding, "UTF8");
            subject.ok(Check::PostgresShape, "positions are assigned as the migrations define it");
            Some(store)
        }
        Err(error) => {
            let check = match error.code() {
                Code::ServerTooOld | Code::StoreReadOnly => Check::PostgresVersion,
                Code::PrivilegeMissing => Check::PostgresRights,
                Code::RowsHidden => Check::PostgresRowSecurity,
                Code::EncodingUnfit => Check::PostgresEncoding,
                Code::SchemaAltered => Check::PostgresShape,
                _ => Check::SchemaCurrent,
            };
            subject.refused(check, &error);
            None
        }
    }
}

/// Whether the way to the server is what the configuration takes it for.
async fn pooler(config: &PostgresConfig, store: &PostgresStore, subject: &mut Subject<'_>) {
    let check = Check::PostgresPooler;
    match (store.is_pooled().await, config.listens()) {
        (Ok(false), _) => subject.ok(check, "a direct connection"),
        (Ok(true), false) if config.pooler_choice() == Pooler::Transaction => {
            subject.ok(check, "a pooler in transaction mode, as configured")
        }
        (Ok(true), false) => subject.warn(check, "the connection goes through a pooler in transaction mode"),
        (Ok(true), true) => subject.warn(
            check,
            "the connection goes through a pooler in transaction mode: LISTEN does not work, the relay polls",
        ),
        (Err(error), _) => subject.warn(check, format!("cannot be checked: {}", error.one_line())),
    }
}

/// A connection to ask on.
struct Server<'a> {
    client: Client,
    schema: &'a Ident,
}

impl Server<'_> {
    /// The rows' first column. `{schema}` stands for the schema as it is quoted.
    async fn ask<T: FromSqlOwned>(&self, sql: &str) -> Result<Vec<T>, String> {
        self.ask_with(sql, &[]).await
    }

    /// The same, with the seconds of an age as `$1`.
    async fn ask_about(&self, sql: &str, age: Duration) -> Result<Vec<String>, String> {
        self.ask_with(sql, &[(&age.as_secs_f64(), Type::FLOAT8)]).await
    }

    /// Statements have no name, so that they work through a pooler.
    async fn ask_with<T: FromSqlOwned>(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<T>, String> {
        let sql = sql.replace("{schema}", &self.schema.to_string());
        // In a transaction, in which names mean the same behind a pooler.
        let asked = async {
            self.client.batch_execute(BEGIN_GUARDED).await?;
            let rows = self.client.query_typed(&sql, params).await;
            self.client.batch_execute("ROLLBACK").await?;
            rows
        };
        let rows = asked.await.map_err(|error| said(&error))?;
        rows.iter().map(|row| row.try_get(0).map_err(|error| said(&error))).collect()
    }
}

fn said(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |answer| answer.message().to_owned())
}

/// A check whose findings are lines: none is good.
fn tell(subject: &mut Subject<'_>, check: Check, found: Result<Vec<String>, String>, good: &str) {
    match found {
        Ok(lines) if lines.is_empty() => subject.ok(check, good),
        Ok(lines) => subject.warn(check, lines.join("; ")),
        Err(error) => subject.warn(check, format!("cannot be checked: {error}")),
    }
}

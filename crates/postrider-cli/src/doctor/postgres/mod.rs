//! What is particular about a PostgreSQL database.
//!
//! 1. `rights`: what this user may do, and what others may not
//! 2. `server`: clock, durability, transactions, bloat
//!
//! Every question is one statement that changes nothing; one that cannot be answered is a warning.

mod rights;
mod server;

use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::{Code, Ident};
use tokio_postgres::Client;
use tokio_postgres::types::FromSqlOwned;

use super::{Check, Patient};

/// Looks at the server and says whether its tables can be read.
pub(crate) async fn examine(
    config: &PostgresConfig,
    schema: &Ident,
    shown: &str,
    patient: &mut Patient<'_>,
) -> bool {
    let client = match config.client().await {
        Ok(client) => client,
        Err(error) => {
            patient.fail(Check::Readable, error.sentence());
            return false;
        }
    };
    patient.ok(Check::Readable, format!("{shown} answers"));
    if config.is_exposed() {
        patient.warn(Check::PostgresEncrypted, "the connection is not encrypted");
    } else {
        patient.ok(Check::PostgresEncrypted, "encrypted, or within this machine");
    }
    let server = Server { client, schema };
    server.version(patient).await;
    server.clock(patient).await;
    server.durable(patient).await;
    server.transactions(patient).await;
    server.prepared(patient).await;
    let usable = tables(config, patient).await;
    if usable {
        server.rights(patient).await;
        server.excess(patient).await;
        server.writers(patient).await;
        server.bloat(patient).await;
    }
    usable
}

/// Whether a store can be opened: version, schema, and an outbox as the migrations made it.
async fn tables(config: &PostgresConfig, patient: &mut Patient<'_>) -> bool {
    let schema = PostgresStore::schema(config).await;
    match PostgresStore::connect(config).await {
        Ok(_) => {
            let found = schema.map(|schema| schema.found).unwrap_or_default();
            patient.ok(Check::SchemaCurrent, format!("schema {found}"));
            true
        }
        Err(error) => {
            let check = match error.code() {
                Code::ServerTooOld | Code::StoreReadOnly => Check::PostgresVersion,
                Code::PrivilegeMissing => Check::PostgresRights,
                _ => Check::SchemaCurrent,
            };
            patient.fail(check, error.sentence());
            false
        }
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
        let sql = sql.replace("{schema}", &self.schema.to_string());
        let rows = self.client.query(&sql, &[]).await.map_err(|error| said(&error))?;
        rows.iter().map(|row| row.try_get(0).map_err(|error| said(&error))).collect()
    }
}

fn said(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |answer| answer.message().to_owned())
}

/// A check whose findings are lines: none is good.
fn tell(patient: &mut Patient<'_>, check: Check, found: Result<Vec<String>, String>, good: &str) {
    match found {
        Ok(lines) if lines.is_empty() => patient.ok(check, good),
        Ok(lines) => patient.warn(check, lines.join("; ")),
        Err(error) => patient.warn(check, format!("cannot be told: {error}")),
    }
}
